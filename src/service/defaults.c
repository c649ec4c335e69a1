/* Defaults: defaults.yaml as bytes of the program. */
#include "service/rules.h"

__asm__(".section .rodata\n"
        ".global gatehouse_defaults_begin, gatehouse_defaults_end\n"
        "gatehouse_defaults_begin:\n"
        ".incbin \"src/service/defaults.yaml\"\n"
        "gatehouse_defaults_end:\n"
        ".previous\n");

extern const char gatehouse_defaults_begin[], gatehouse_defaults_end[];

struct bytes policy_defaults(void)
{
	return (struct bytes){gatehouse_defaults_begin,
	                      (size_t)(gatehouse_defaults_end - gatehouse_defaults_begin)};
}

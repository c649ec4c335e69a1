/* Watch: what builds with sanitizers do with memory that is handed out in parts. In other builds all of this is empty.
 *
 * Memory that is lent holds garbage until it is written: a member that was never set is not zero by luck, and a pointer read from it leads
 * nowhere. Under AddressSanitizer, bytes that are not lent must not be touched, and a gap follows each loan: arenas are watched as the heap is. */
#ifndef BASE_WATCH_H
#define BASE_WATCH_H

#include <stddef.h>
#include <string.h>

#ifdef __has_feature
#define WATCH_FEATURE(name) __has_feature(name)
#else
#define WATCH_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || WATCH_FEATURE(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define WATCH_ADDRESSES 1
#else
#define WATCH_ADDRESSES 0
#endif

#if WATCH_ADDRESSES || defined(__SANITIZE_THREAD__)
#define WATCH_GARBAGE 1
#else
#define WATCH_GARBAGE 0
#endif

enum {
	WATCH_GAP_BYTES = WATCH_ADDRESSES ? 16 : 0,
	WATCH_GARBAGE_BYTE = 0xb5, /* as a pointer: an address that no program has */
};

static inline void watch_lend(void *p, size_t len)
{
#if WATCH_ADDRESSES
	__asan_unpoison_memory_region(p, len);
#endif
	if (WATCH_GARBAGE)
		memset(p, WATCH_GARBAGE_BYTE, len);
}

static inline void watch_take_back(const void *p, size_t len)
{
#if WATCH_ADDRESSES
	__asan_poison_memory_region(p, len);
#else
	(void)p, (void)len;
#endif
}

#endif

/* Manual: the parts of the man page and of the shell completion that the commands' tables say, so that
 * neither can tell another story than --help. The rest of both is in packaging/: tools/from-tables joins
 * them. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/commands.h"

/* roff, man(7): a subsection for each command. */
void manual_print_man(const struct command *const *commands, size_t count);

/* A bash function, _gatehouse_table COMMAND: sets words, options, and which options take what. */
void manual_print_completion(const struct command *const *commands, size_t count);

#endif

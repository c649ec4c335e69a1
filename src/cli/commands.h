/* Commands: what `gatehouse NAME …` can do. Each gets the arguments after its name and returns the exit
 * status: 0 done, 1 failed, 2 wrong arguments. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

int command_serve(int argc, char **argv);
int command_check(int argc, char **argv);
int command_version(int argc, char **argv);

#endif

/* Version: of the program, said by `gatehouse version` and by /metrics. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define GATEHOUSE_VERSION "0.1.0"

#endif

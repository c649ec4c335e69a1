/* Replay: runs a fuzz target on files, without libFuzzer or a sanitizer: for valgrind, which sees reads of memory that was never
 * written. One file after the other, in one process, as the fuzzer runs them.
 *
 *   valgrind -q --error-exitcode=99 build/fuzz/v1_replay FILE… */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES_MAX = 1 << 20 };

static int replay(const char *path)
{
	FILE    *file = fopen(path, "rb");
	uint8_t *data = malloc(INPUT_BYTES_MAX);
	size_t   size = file == NULL ? 0 : fread(data, 1, INPUT_BYTES_MAX, file);
	uint8_t *exact = malloc(size == 0 ? 1 : size); /* a read past its end is seen */

	if (file == NULL) {
		perror(path);
		return 1;
	}
	fclose(file);
	for (size_t i = 0; i < size; i++)
		exact[i] = data[i];
	free(data);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (replay(argv[i]) != 0)
			return 1;
	printf("%d files\n", argc - 1);
	return 0;
}

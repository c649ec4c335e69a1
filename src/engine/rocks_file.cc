// Rocks file: reads one file of the store whole, every block of it, and compares each with its checksum. The
// C interface, and so rocks.c, has nothing for that: through it a block is verified only when something in it
// is asked for, and a damaged filter not even then.
//
// What always holds: no exception leaves this file, and nothing is written.
#include <rocksdb/sst_file_reader.h>

extern "C" {
#include "engine/rocks.h"
}

extern "C" enum err_code rocks_file_verify(const char *path, struct err *err)
{
	rocksdb::SstFileReader reader{rocksdb::Options()};
	rocksdb::Status        status = reader.Open(path);

	if (status.ok())
		status = reader.VerifyChecksum();
	return status.ok() ? ERR_NONE : err_set(err, ERR_STORAGE, "%s: %s", path, status.ToString().c_str());
}

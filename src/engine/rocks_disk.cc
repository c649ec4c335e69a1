// Rocks disk: what RocksDB's C interface lacks. First see rocks_disk.h: a file system of RocksDB's that writes files itself, because only who knows how much of a
// write got through can go on with the rest of it later. Reading is left to RocksDB's own.
//
// What always holds: no exception leaves this file.
#include <fcntl.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

extern "C" {
#include "base/fault.h"
#include "engine/rocks.h"
#include "engine/rocks_disk.h"
}

using namespace rocksdb;

namespace {

constexpr std::chrono::milliseconds LOOK_AGAIN{100};

} // namespace

struct rocks_disk {
	std::string          path, short_path;
	struct rocks_room    room;
	std::unique_ptr<Env> env;
	std::atomic<bool>    frozen{false};
	std::atomic<bool>    failed{false}; // (D3); `why` is set before, once
	std::string          why;
	std::atomic<int>     waiting{0};
	std::atomic<bool>    unread{false}; // (D5) of the file that was opened last

	std::mutex              lock;
	std::condition_variable changed;
	bool                    patient = false;
};

namespace {

bool is_full(int error)
{
	return error == ENOSPC || error == EDQUOT;
}

IOStatus failed(const std::string &path, int error)
{
	return IOStatus::IOError(path, strerror(error));
}

bool is_manifest(const std::string &path)
{
	return path.find("/MANIFEST-") != std::string::npos;
}

// (D3) As of any frozen disk, RocksDB is told that all is well: it has nothing to clean up.
IOStatus manifest_failed(struct rocks_disk *d, const std::string &path, int error)
{
	std::lock_guard<std::mutex> held(d->lock);

	if (!d->failed)
		d->why = path + ": " + strerror(error);
	d->failed = true;
	d->frozen = true;
	d->changed.notify_all();
	return IOStatus::OK();
}

// There is no room. True: try again. False: the disk is frozen, and what was to be written is dropped.
bool await_room(struct rocks_disk *d)
{
	std::unique_lock<std::mutex> held(d->lock);

	if (!d->patient)
		d->frozen = true;
	if (d->frozen)
		return false;
	d->waiting++;
	d->room.on_full(d->room.ctx);
	d->changed.wait_for(held, LOOK_AGAIN);
	d->waiting--;
	return true;
}

bool is_below_reserve(const struct rocks_disk *d)
{
	struct statvfs v;

	return statvfs(d->path.c_str(), &v) == 0 && v.f_bavail * v.f_frsize < d->room.reserve_bytes;
}

// (D2) Nobody is told: below the reserve nothing is written anyway. Closing the store does not wait for it.
void await_reserve(struct rocks_disk *d)
{
	std::unique_lock<std::mutex> held(d->lock);

	while (d->patient && !d->frozen && is_below_reserve(d))
		d->changed.wait_for(held, LOOK_AGAIN);
}

// A file that is written from its beginning to its end. fd -1: it was made on a frozen disk, and is not there.
class patient_file : public FSWritableFile {
public:
	patient_file(struct rocks_disk *d, const std::string &path, int fd, uint64_t size)
	    : disk(d), name(path), file(fd), at(size)
	{
	}
	~patient_file() override
	{
		if (file >= 0)
			close(file);
	}
	using FSWritableFile::Append;
	IOStatus Append(const Slice &data, const IOOptions &, IODebugContext *) override
	{
		size_t done = 0;

		if (io_priority_ == Env::IO_LOW)
			await_reserve(disk);
		while (done < data.size() && file >= 0 && !disk->frozen) {
			ssize_t n = write_some(data, done);

			if (n > 0)
				done += (size_t)n;
			else if (n < 0 && is_full(errno) && !await_room(disk))
				break;
			else if (n < 0 && errno != EINTR && !is_full(errno))
				return fails(errno);
		}
		at += data.size();
		return IOStatus::OK();
	}
	IOStatus Truncate(uint64_t size, const IOOptions &, IODebugContext *) override
	{
		if (is_there() && ftruncate(file, (off_t)size) != 0)
			return fails(errno);
		at = size;
		return IOStatus::OK();
	}
	IOStatus Close(const IOOptions &, IODebugContext *) override
	{
		int fd = file;

		file = -1;
		return fd >= 0 && close(fd) != 0 ? fails(errno) : IOStatus::OK();
	}
	IOStatus Flush(const IOOptions &, IODebugContext *) override
	{
		return IOStatus::OK(); // there is no buffer
	}
	IOStatus Sync(const IOOptions &, IODebugContext *) override
	{
		return is_there() && fdatasync(file) != 0 ? fails(errno) : IOStatus::OK();
	}
	IOStatus Fsync(const IOOptions &, IODebugContext *) override
	{
		return is_there() && fsync(file) != 0 ? fails(errno) : IOStatus::OK();
	}
	bool IsSyncThreadSafe() const override
	{
		return true;
	}
	uint64_t GetFileSize(const IOOptions &, IODebugContext *) override
	{
		return at;
	}
	IOStatus InvalidateCache(size_t, size_t) override
	{
		return IOStatus::OK(); // it is a log's file, and readers are close behind
	}

private:
	struct rocks_disk *disk;
	std::string        name;
	int                file;
	uint64_t           at;

	bool is_there() const
	{
		return file >= 0 && !disk->frozen;
	}
	IOStatus fails(int error)
	{
		return is_manifest(name) ? manifest_failed(disk, name, error) : failed(name, error);
	}
	ssize_t write_some(const Slice &data, size_t done)
	{
		if (fault_fires(FAULT_STORE_FULL)) {
			errno = ENOSPC;
			return -1;
		}
		return pwrite(file, data.data() + done, data.size() - done, (off_t)(at + done));
	}
};

// A file of which only the beginning is there.
class short_file : public FSSequentialFileOwnerWrapper {
public:
	short_file(std::unique_ptr<FSSequentialFile> &&file, size_t bytes)
	    : FSSequentialFileOwnerWrapper(std::move(file)), left(bytes)
	{
	}
	IOStatus Read(size_t n, const IOOptions &options, Slice *result, char *scratch,
	              IODebugContext *dbg) override
	{
		IOStatus status = target()->Read(n < left ? n : left, options, result, scratch, dbg);

		left -= result->size();
		return status;
	}
	IOStatus Skip(uint64_t n) override
	{
		uint64_t some = n < left ? n : left;

		left -= some;
		return target()->Skip(some);
	}

private:
	size_t left;
};

// (D5) A file that is not the store's yet.
class new_file : public FSRandomAccessFileOwnerWrapper {
public:
	new_file(struct rocks_disk *d, std::unique_ptr<FSRandomAccessFile> &&file)
	    : FSRandomAccessFileOwnerWrapper(std::move(file)), disk(d)
	{
		disk->unread = false;
	}
	IOStatus Read(uint64_t offset, size_t n, const IOOptions &options, Slice *result, char *scratch,
	              IODebugContext *dbg) const override
	{
		return seen(target()->Read(offset, n, options, result, scratch, dbg));
	}
	IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions &options, IODebugContext *dbg) override
	{
		return seen(target()->Prefetch(offset, n, options, dbg));
	}

private:
	struct rocks_disk *disk;

	IOStatus seen(IOStatus status) const
	{
		if (!status.ok() && !status.IsNotSupported())
			disk->unread = true;
		return status;
	}
};

bool is_of_store(const std::string &path)
{
	return path.size() > 4 && path.compare(path.size() - 4, 4, ".sst") == 0;
}

// RocksDB's own log: lines for which there is no room are lost, or all of them if there is none for the file: without a
// log RocksDB does not open. (RocksDB's own logger aborts then.)
class careless_log : public Logger {
public:
	explicit careless_log(FILE *f) : Logger(InfoLogLevel::WARN_LEVEL), file(f) {}
	~careless_log() override
	{
		if (file != nullptr)
			fclose(file);
	}
	using Logger::Logv;
	void Logv(const char *format, va_list arguments) override
	{
		std::lock_guard<std::mutex> held(lock);
		struct tm                   tm;
		time_t                      now = time(nullptr);
		char                        text[32];

		if (file == nullptr)
			return;
		gmtime_r(&now, &tm);
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
		fprintf(file, "%s ", text);
		vfprintf(file, format, arguments);
		fputc('\n', file);
		fflush(file);
	}

private:
	std::mutex lock;
	FILE      *file;
};

class patient_files : public FileSystemWrapper {
public:
	explicit patient_files(struct rocks_disk *d) : FileSystemWrapper(FileSystem::Default()), disk(d) {}

	const char *Name() const override
	{
		return "gatehouse";
	}
	IOStatus NewSequentialFile(const std::string &path, const FileOptions &options,
	                           std::unique_ptr<FSSequentialFile> *out, IODebugContext *dbg) override
	{
		IOStatus status = target()->NewSequentialFile(path, options, out, dbg);

		if (status.ok() && path == disk->short_path)
			out->reset(new short_file(std::move(*out), disk->room.short_bytes));
		return status;
	}
	IOStatus NewRandomAccessFile(const std::string &path, const FileOptions &options,
	                             std::unique_ptr<FSRandomAccessFile> *out, IODebugContext *dbg) override
	{
		IOStatus status = target()->NewRandomAccessFile(path, options, out, dbg);

		if (status.ok() && !is_of_store(path))
			out->reset(new new_file(disk, std::move(*out)));
		return status;
	}
	IOStatus NewWritableFile(const std::string &path, const FileOptions &,
	                         std::unique_ptr<FSWritableFile> *out, IODebugContext *) override
	{
		if (!disk->frozen && unlink(path.c_str()) != 0 && errno != ENOENT) // (D4)
			return failed(path, errno);
		return open_file(path, O_EXCL, out);
	}
	IOStatus ReopenWritableFile(const std::string &path, const FileOptions &,
	                            std::unique_ptr<FSWritableFile> *out, IODebugContext *) override
	{
		return open_file(path, 0, out);
	}
	IOStatus RenameFile(const std::string &from, const std::string &to, const IOOptions &,
	                    IODebugContext *) override
	{
		while (!disk->frozen && rename(from.c_str(), to.c_str()) != 0)
			if (!is_full(errno) || !await_room(disk))
				return disk->frozen ? IOStatus::OK() : failed(from, errno);
		return IOStatus::OK();
	}
	IOStatus CreateDirIfMissing(const std::string &path, const IOOptions &, IODebugContext *) override
	{
		while (!disk->frozen && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
			if (!is_full(errno) || !await_room(disk))
				return disk->frozen ? IOStatus::OK() : failed(path, errno);
		return IOStatus::OK();
	}
	IOStatus LinkFile(const std::string &from, const std::string &to, const IOOptions &options,
	                  IODebugContext *dbg) override
	{
		if (disk->unread)
			return failed(from, EIO);
		return disk->frozen ? IOStatus::OK() : target()->LinkFile(from, to, options, dbg);
	}
	IOStatus DeleteFile(const std::string &path, const IOOptions &options, IODebugContext *dbg) override
	{
		return disk->frozen ? IOStatus::OK() : target()->DeleteFile(path, options, dbg);
	}
	IOStatus NewLogger(const std::string &path, const IOOptions &, std::shared_ptr<Logger> *out,
	                   IODebugContext *) override
	{
		*out = std::make_shared<careless_log>(disk->frozen ? nullptr : fopen(path.c_str(), "we"));
		return IOStatus::OK();
	}

private:
	struct rocks_disk *disk;

	IOStatus open_file(const std::string &path, int flags, std::unique_ptr<FSWritableFile> *out)
	{
		struct stat st;
		int         fd = -1;

		while (!disk->frozen && fd < 0) {
			fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
			if (fd < 0 && !is_full(errno) && errno != EINTR)
				return failed(path, errno);
			if (fd < 0 && is_full(errno))
				await_room(disk);
		}
		if (fd < 0 || fstat(fd, &st) != 0)
			st.st_size = 0;
		out->reset(new patient_file(disk, path, fd, (uint64_t)st.st_size));
		return IOStatus::OK();
	}
};

} // namespace

extern "C" struct rocks_disk *rocks_disk_open(const struct rocks_room *room)
{
	struct rocks_disk *d = new rocks_disk;

	d->path = room->path;
	d->room = *room;
	if (room->short_name != nullptr)
		d->short_path = d->path + "/" + room->short_name;
	d->env = NewCompositeEnv(std::make_shared<patient_files>(d));
	return d;
}

extern "C" void rocks_disk_close(struct rocks_disk *d)
{
	delete d;
}

// rocksdb_options_t is a struct with Options as its one member, and has been since there is a C interface.
extern "C" void rocks_disk_attach(struct rocks_disk *d, void *rocksdb_options, size_t write_buffer_bytes)
{
	Options *options = static_cast<Options *>(rocksdb_options);

	if (options->write_buffer_size != write_buffer_bytes)
		abort(); // another library than the one that this was compiled for
	options->env = d->env.get();
}

extern "C" void rocks_disk_be_patient(struct rocks_disk *d, bool patient)
{
	std::lock_guard<std::mutex> held(d->lock);

	d->patient = patient;
	d->changed.notify_all();
}

extern "C" void rocks_disk_freeze(struct rocks_disk *d)
{
	std::lock_guard<std::mutex> held(d->lock);

	d->frozen = true;
	d->changed.notify_all();
}

extern "C" bool rocks_disk_has_room(const struct rocks_disk *d)
{
	return !is_below_reserve(d);
}

extern "C" bool rocks_disk_is_frozen(const struct rocks_disk *d)
{
	return d->frozen;
}

extern "C" const char *rocks_disk_failure(const struct rocks_disk *d)
{
	return d->failed ? d->why.c_str() : nullptr;
}

extern "C" bool rocks_disk_is_waiting(const struct rocks_disk *d)
{
	return d->waiting > 0;
}

// ---- reading one file of the store whole ----

// Every block of it is compared with its checksum. Through the C interface a block is verified only when something in it is
// asked for, and a damaged filter not even then.
extern "C" enum err_code rocks_file_verify(const char *path, struct err *err)
{
	SstFileReader reader{Options()};
	Status        status = reader.Open(path);

	if (status.ok())
		status = reader.VerifyChecksum();
	return status.ok() ? ERR_NONE : err_set(err, ERR_STORAGE, "%s: %s", path, status.ToString().c_str());
}

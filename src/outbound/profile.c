/* Profile: see profile.h. */
#include "outbound/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static struct bytes line_next(struct bytes *rest)
{
	const char  *end = rest->len == 0 ? NULL : memchr(rest->data, '\n', rest->len);
	size_t       len = end == NULL ? rest->len : (size_t)(end - rest->data);
	struct bytes line = {rest->data, len};

	*rest = (struct bytes){rest->data + (end == NULL ? len : len + 1),
	                       rest->len - (end == NULL ? len : len + 1)};
	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	return line;
}

/* "[profile work]" is `work` in the config file; "[default]" is `default` in both. */
static bool is_section(struct bytes line, struct bytes name, bool config)
{
	struct bytes title;

	line = bytes_trimmed(line);
	if (line.len < 2 || line.data[line.len - 1] != ']')
		return false;
	title = bytes_trimmed((struct bytes){line.data + 1, line.len - 2});
	if (config && !bytes_is(name, "default")) {
		if (!bytes_starts_with(title, BYTES("profile ")))
			return false;
		title = bytes_trimmed((struct bytes){title.data + 8, title.len - 8});
	}
	return bytes_equal(title, name);
}

static void setting_add(struct profile *p, struct bytes line)
{
	const char  *equals = memchr(line.data, '=', line.len);
	struct bytes name;

	if (equals == NULL || p->count == PROFILE_SETTINGS_MAX)
		return;
	name = bytes_trimmed((struct bytes){line.data, (size_t)(equals - line.data)});
	for (uint32_t i = 0; i < p->count; i++)
		if (bytes_equal(p->settings[i].name, name))
			return;
	p->settings[p->count++] = (struct profile_setting){
	        name, bytes_trimmed((struct bytes){equals + 1, (size_t)(line.data + line.len - equals - 1)})};
}

void profile_add(struct profile *p, struct bytes file, struct bytes name, bool config)
{
	bool inside = false;

	while (file.len > 0) {
		struct bytes line = line_next(&file);
		char         first = line.len == 0 ? '#' : line.data[0];

		if (first == '#' || first == ';' || first == ' ' || first == '\t')
			continue;
		if (first == '[') {
			inside = is_section(line, name, config);
			p->found |= inside;
		} else if (inside) {
			setting_add(p, line);
		}
	}
}

struct bytes profile_get(const struct profile *p, const char *setting)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (bytes_is(p->settings[i].name, setting) && p->settings[i].value.len > 0)
			return p->settings[i].value;
	return (struct bytes){NULL, 0};
}

enum err_code profile_file_read(const char *path, struct arena *a, struct bytes *text, struct err *err)
{
	int     fd = open(path, O_RDONLY | O_CLOEXEC);
	char   *data;
	size_t  len = 0;
	ssize_t n = 1;

	*text = (struct bytes){"", 0};
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR
		               ? ERR_NONE
		               : err_set(err, ERR_INVALID, "open %s: %s", path, strerror(errno));
	data = arena_alloc(a, PROFILE_FILE_BYTES_MAX + 1);
	while (n > 0 && len <= PROFILE_FILE_BYTES_MAX) {
		n = read(fd, data + len, PROFILE_FILE_BYTES_MAX + 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	if (n < 0)
		return err_set(err, ERR_INVALID, "read %s: %s", path, strerror(errno));
	if (len > PROFILE_FILE_BYTES_MAX)
		return err_set(err, ERR_INVALID, "%s must have at most %d bytes", path,
		               PROFILE_FILE_BYTES_MAX);
	*text = (struct bytes){data, len};
	return ERR_NONE;
}

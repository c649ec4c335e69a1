"""What an operator installs: the Debian package, the unit, the man page, the completion; and how the server talks to systemd."""
import json
import os
import re
import shutil
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from conftest import ROOT, line_with_endpoint, program, stop

pytestmark = pytest.mark.gatehouse_only
NOTIFY_S = 30
EXPOSURE_MAX = 1.5
LIBRARIES = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"

FILES = {
    "/etc/gatehouse/gatehouse.yaml": "-rw-r--r--",
    "/lib/systemd/system/gatehouse.service": "-rw-r--r--",
    "/lib/systemd/system/gatehouse.socket": "-rw-r--r--",
    "/usr/bin/gatehouse": "-rwxr-xr-x",
    "/usr/include/gatehouse.h": "-rw-r--r--",
    f"{LIBRARIES}/libgatehouse.a": "-rw-r--r--",
    f"{LIBRARIES}/libgatehouse.so -> libgatehouse.so.0": "lrwxrwxrwx",
    f"{LIBRARIES}/libgatehouse.so.0": "-rw-r--r--",
    f"{LIBRARIES}/pkgconfig/gatehouse.pc": "-rw-r--r--",
    "/usr/lib/sysusers.d/gatehouse.conf": "-rw-r--r--",
    "/usr/share/bash-completion/completions/gatehouse": "-rw-r--r--",
    "/usr/share/doc/gatehouse/changelog.gz": "-rw-r--r--",
    "/usr/share/doc/gatehouse/copyright": "-rw-r--r--",
    "/usr/share/gatehouse/prices.yaml": "-rw-r--r--",
    "/usr/share/lintian/overrides/gatehouse": "-rw-r--r--",
    "/usr/share/man/man1/gatehouse.1.gz": "-rw-r--r--",
    "/usr/share/man/man3/gatehouse.3.gz": "-rw-r--r--",
}


READ = ["README.md", "CHANGELOG.md", "openapi.yaml", "client/README.md", "src/service/defaults.yaml", "docs/*.md", "docs/*.json", "docs/*.svg",
        "packaging/examples", "packaging/prometheus", "packaging/terraform"]


def documents():
    """What is installed to be read, at the paths that it has in the source."""
    return {f"/usr/share/doc/gatehouse/{path}": "-rw-r--r--" for path in run("git", "ls-files", *READ).split() if not path.endswith("package-lock.json")}


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=60, cwd=ROOT, **more)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def deb():
    return Path(ROOT / run("make", "--no-print-directory", "-s", "deb").split()[-1])


@pytest.fixture(scope="module")
def installed(deb, tmp_path_factory):
    """The package's files, unpacked."""
    root = tmp_path_factory.mktemp("package")
    run("dpkg-deb", "--extract", deb, root)
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def told():
    """What --help tells: each command's words and options."""
    names = re.findall(r"^  ([a-z-]+) +\S", run(program(), "--help"), re.M)
    assert {"serve", "key", "policy", "check", "version"} <= set(names)
    texts = {name: run(program(), "help", name) for name in names}
    return {name: (list(dict.fromkeys(re.findall(rf"^  gatehouse {name} ([a-z][a-z-]*)", text, re.M))), re.findall(r"^  (--[a-z-]+)", text, re.M))
            for name, text in texts.items()}


# ---- the package ----


def test_the_package_holds_what_it_should_owned_by_root_and_nothing_else(deb):
    found = {}
    for line in run("dpkg-deb", "--contents", deb).splitlines():
        mode, owner, _, _, _, path = line.split(maxsplit=5)
        assert owner == "root/root", line
        if mode.startswith("d"):
            assert mode == "drwxr-xr-x", line
        else:
            found[path[1:]] = mode
    assert found == FILES | documents()


def test_the_package_names_its_version_its_libraries_and_its_configuration(deb, tmp_path):
    fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", run("dpkg-deb", "--field", deb), re.M))
    assert fields["Package"] == "gatehouse"
    assert fields["Version"] == run(program(), "version").split()[1]
    assert deb.name == f"gatehouse_{fields['Version']}_{fields['Architecture']}.deb"
    for library in ("libc6", "librocksdb", "libssl", "libyaml-", "libidn2-", "libunistring"):
        assert re.search(rf"\b{library}[\d.-]*( \(>= |,|$)", fields["Depends"]), fields["Depends"]
    run("dpkg-deb", "--control", deb, tmp_path)
    assert (tmp_path / "conffiles").read_text().split() == ["/etc/gatehouse/gatehouse.yaml"]
    for script in ("postinst", "prerm", "postrm"):
        assert os.access(tmp_path / script, os.X_OK)
        run("sh", "-n", tmp_path / script)


def test_the_packaged_program_runs(installed):
    assert run(installed / "usr/bin/gatehouse", "version") == run(program(), "version")


def test_a_program_links_with_the_packaged_client_library_shared_and_static(installed, tmp_path):
    libraries = str(installed) + LIBRARIES
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{libraries}/pkgconfig", "PKG_CONFIG_SYSROOT_DIR": str(installed),
                   "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}
    shared = run("pkg-config", "--cflags", "--libs", "gatehouse", env=environment).split()
    static = run("pkg-config", "--cflags", "--libs", "--static", "gatehouse", env=environment).split()
    static = [f"{libraries}/libgatehouse.a" if word == "-lgatehouse" else word for word in static]
    for compiler in (["gcc", "-std=c11"], ["g++", "-std=c++17", "-x", "c++"]):
        # The header is what both languages share; the example itself is C.
        empty = tmp_path / "empty.c"
        empty.write_text("#include <gatehouse.h>\nint main(void) { return gatehouse_version()[0] == 0; }\n")
        run(*compiler, "-Wall", "-Wextra", "-pedantic", "-Werror", "-o", tmp_path / "empty", empty, "-x", "none", *shared)
    run("gcc", "-std=c11", "-o", tmp_path / "shared", "client/example.c", *shared)
    run("gcc", "-std=c11", "-o", tmp_path / "static", "client/example.c", *static)
    needed = run("objdump", "-p", tmp_path / "shared")
    assert re.search(r"NEEDED +libgatehouse\.so\.0$", needed, re.M)
    assert "libgatehouse" not in run("objdump", "-p", tmp_path / "static").replace(str(tmp_path), "")
    for name in ("empty", "shared", "static"):
        run(tmp_path / name, input="", env={**os.environ, "LD_LIBRARY_PATH": libraries})


def test_the_client_library_shows_its_own_names_only(installed):
    for options, file in ((["-D"], "libgatehouse.so.0"), (["-g"], "libgatehouse.a")):
        names = re.findall(r" [A-Z] (\w+)", run("nm", *options, "--defined-only", str(installed) + f"{LIBRARIES}/{file}"))
        assert {"gatehouse_open", "gatehouse_close", "gatehouse_allow", "gatehouse_attempt", "gatehouse_check", "gatehouse_consumer_open",
                "gatehouse_consumer_run", "gatehouse_consumer_close"} <= set(names)
        assert all(name.startswith("gatehouse_") or name == "GATEHOUSE_0" for name in names), names


def test_the_client_librarys_man_page_is_well_formed_and_names_every_function_and_code(installed):
    page = installed / "usr/share/man/man3/gatehouse.3.gz"
    assert run("mandoc", "-T", "lint", page) == ""
    text = re.sub(".\b", "", run("mandoc", "-T", "ascii", "-O", "width=200", page))
    header = (ROOT / "client/gatehouse.h").read_text()
    codes = re.search(r"enum gatehouse_code \{(.*?)\};", header, re.S).group(1)
    for name in re.findall(r"(gatehouse_\w+)\(", header) + re.findall(r"GATEHOUSE_[A-Z_]+", codes):
        assert name in text, name


def test_the_packaged_program_serves_and_stops(installed, tmp_path):
    server = subprocess.Popen([installed / "usr/bin/gatehouse", "serve", "--listen", "127.0.0.1:0", "--data", tmp_path / "data"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        endpoint = line_with_endpoint(server)
        assert urllib.request.urlopen(endpoint + "/readyz", timeout=NOTIFY_S).status == 200
    finally:
        stop(server)
        server.stdout.close()
    assert server.returncode == 0


def test_systemd_understands_every_line_of_the_units(installed, tmp_path):
    """With the program where it was unpacked: systemd also looks whether it is there."""
    for name in ("gatehouse.service", "gatehouse.socket"):
        text = (installed / "lib/systemd/system" / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/bin/gatehouse", str(installed / "usr/bin/gatehouse")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "gatehouse.service", tmp_path / "gatehouse.socket"],
                          text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("mistake", [False, True])
def test_the_drop_in_that_the_documents_show_for_outbound_traffic_is_understood(installed, tmp_path, mistake):
    page = (ROOT / "docs/operations.md").read_text()
    drop_in = re.search(r"^## Outbound traffic$.*?^```ini\n(.*?)^```$", page, re.S | re.M).group(1)
    text = (installed / "lib/systemd/system/gatehouse.service").read_text()
    (tmp_path / "gatehouse.service").write_text(text.replace("/usr/bin/gatehouse", str(installed / "usr/bin/gatehouse")))
    (tmp_path / "gatehouse.service.d").mkdir()
    (tmp_path / "gatehouse.service.d/outbound.conf").write_text(drop_in.replace("198.51.100.0/24", "nowhere") if mistake else drop_in)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "gatehouse.service"], text=True, capture_output=True, timeout=60)
    assert (done.stdout + done.stderr == "") is not mistake, done


def test_the_unit_runs_nothing_that_a_small_system_lacks(installed):
    """What is not ours comes from Debian's essential packages: the shell, and not, for one, kill."""
    unit = (installed / "lib/systemd/system/gatehouse.service").read_text()
    assert set(re.findall(r"^Exec\w+=(\S+)", unit, re.M)) <= {"/usr/bin/gatehouse", "/bin/sh"}


def test_the_data_directory_and_its_user_are_made_for_the_service_alone(installed):
    assert re.search(r"^u gatehouse ", (installed / "usr/lib/sysusers.d/gatehouse.conf").read_text(), re.M)
    unit = (installed / "lib/systemd/system/gatehouse.service").read_text()
    for line in ("User=gatehouse", "StateDirectory=gatehouse", "StateDirectoryMode=0700", "Type=notify"):
        assert line in unit.splitlines()
    assert "ExecStart=/usr/bin/gatehouse serve --config /etc/gatehouse/gatehouse.yaml --data /var/lib/gatehouse" in unit.splitlines()
    assert "@" not in unit.replace("@system-service", "").replace("@privileged @resources", "")


def test_the_unit_is_as_closed_as_promised(installed):
    unit = installed / "lib/systemd/system/gatehouse.service"
    text = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    exposure = float(re.search(r"Overall exposure level for gatehouse.service: ([\d.]+)", text).group(1))
    assert exposure <= EXPOSURE_MAX, text


def test_make_install_puts_everything_under_its_prefix(tmp_path):
    run("make", "--no-print-directory", "-s", "install", f"DESTDIR={tmp_path}", "PREFIX=/opt/gatehouse")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"opt/gatehouse/" + name for name in (
        "bin/gatehouse", "etc/gatehouse/gatehouse.yaml", "share/man/man1/gatehouse.1", "share/bash-completion/completions/gatehouse",
        "include/gatehouse.h", "lib/libgatehouse.a", "lib/libgatehouse.so", "lib/libgatehouse.so.0", "lib/pkgconfig/gatehouse.pc",
        "share/man/man3/gatehouse.3", "share/gatehouse/prices.yaml",
        "lib/systemd/system/gatehouse.service", "lib/systemd/system/gatehouse.socket", "lib/sysusers.d/gatehouse.conf",
        *(path.removeprefix("/usr/") for path in documents()))}
    unit = (tmp_path / "opt/gatehouse/lib/systemd/system/gatehouse.service").read_text()
    assert "ExecStart=/opt/gatehouse/bin/gatehouse serve --config /opt/gatehouse/etc/gatehouse/gatehouse.yaml " in unit


# ---- the settings ----


def settings(*files_and_options):
    """What --check-config says: name to value and origin."""
    text = run(program(), "serve", *files_and_options, "--check-config", env={"PATH": os.environ["PATH"]})
    return {name: (value, origin) for name, value, origin in re.findall(r"^(?:# )?([a-z-]+): (.*?) +# ([^#\n]*)$", text, re.M)}


def test_the_shipped_settings_are_right_and_say_no_more_than_the_defaults(installed):
    shipped = installed / "etc/gatehouse/gatehouse.yaml"
    defaults = settings()
    said = settings("--config", shipped)
    assert {name: value for name, (value, _) in said.items()} == {name: value for name, (value, _) in defaults.items()}
    assert [name for name, (_, origin) in said.items() if origin.startswith(str(shipped))] == ["listen"]


def test_every_setting_is_in_the_shipped_file_and_what_it_shows_as_default_is(installed, tmp_path):
    shipped = (installed / "etc/gatehouse/gatehouse.yaml").read_text()
    commented = dict(re.findall(r"^#([a-z-]+): (.*)$", shipped, re.M))
    defaults = settings()
    assert {*commented, "listen", "data", "no-auth", "host-names", "accept-clock"} == set(defaults)  # the unit's, and those that no service should have
    for name, value in commented.items():
        assert defaults[name] in ((value, "default"), (f'"{value}"', "default"), ("", "not set")), name
    (tmp_path / "policies.yaml").write_text("limits: {}\n")  # which is read
    (tmp_path / "identity.yaml").write_text("issuers: []\n")  # so is this
    uncommented = re.sub(r"^#(?=[a-z-]+: )", "", shipped, flags=re.M).replace("/etc/gatehouse/policies.yaml", f"{tmp_path}/policies.yaml").replace("/etc/gatehouse/identity.yaml", f"{tmp_path}/identity.yaml")
    (tmp_path / "all.yaml").write_text(uncommented)
    said = settings("--config", tmp_path / "all.yaml")
    assert all(said[name][1].startswith(f"{tmp_path}/all.yaml:") for name in commented)


# ---- the man page ----


def test_the_man_page_is_well_formed_and_names_every_command_word_and_option(installed, told):
    page = installed / "usr/share/man/man1/gatehouse.1.gz"
    assert run("mandoc", "-T", "lint", page) == ""
    text = run("mandoc", "-T", "ascii", "-O", "width=200", page)
    text = re.sub(".\b", "", text)  # bold and underline
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "FILES", "SIGNALS", "EXIT STATUS", "EXAMPLES"):
        assert re.search(rf"^{section}$", text, re.M), section
    parts = dict(re.findall(r"^   gatehouse ([\w-]+)\n(.*?)(?=^ {0,3}\S)", text, re.M | re.S))
    assert set(parts) == set(told)
    for command, (words, options) in told.items():
        for word in words:
            assert f"gatehouse {command} {word}" in parts[command]
        for option in options:
            assert re.search(rf"^ +{option}\b", parts[command], re.M), (command, option)
    assert "--fault" not in text  # for tests, hidden
    for name in ("keys.json", "FORMAT", "LOCK", "ballast", "store"):
        assert f"DIR/{name}" in text


# ---- the completion ----


def complete(installed, *words, cwd=None):
    """What bash offers for the last word."""
    script = installed / "usr/share/bash-completion/completions/gatehouse"
    run("bash", "-n", script)
    line = f'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gatehouse; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", line, "bash", script, "gatehouse", *words], text=True, capture_output=True, cwd=cwd)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return sorted(done.stdout.split())


def test_bash_completes_commands_words_and_options(installed, told):
    assert complete(installed, "") == sorted([*told, "help"])
    assert complete(installed, "key", "r") == ["revoke", "rotate"]
    assert complete(installed, "key", "rotate", "name", "--d") == ["--data"]
    assert complete(installed, "help", "pol") == ["policy"]
    for command, (words, options) in told.items():
        assert complete(installed, command, "-") == sorted(options)
        assert complete(installed, command, "") == sorted(words or options)


def test_bash_completes_files_and_directories_where_an_option_takes_one(installed, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.json").touch()
    for words in (["key", "create", "n", "--policy", "f"], ["key", "create", "n", "--policy", "=", "f"]):
        assert complete(installed, *words, cwd=tmp_path) == ["file.json", "folder"]
    assert complete(installed, "serve", "--data", "f", cwd=tmp_path) == ["folder"]
    assert complete(installed, "serve", "--data", "=", cwd=tmp_path) == ["folder"]
    assert complete(installed, "serve", "--listen", "f", cwd=tmp_path) == []


def test_bash_is_told_to_use_it_for_gatehouse(installed):
    script = installed / "usr/share/bash-completion/completions/gatehouse"
    assert run("bash", "--norc", "-c", f'source "{script}"; complete -p gatehouse').split() == ["complete", "-F", "_gatehouse", "gatehouse"]


# ---- the service manager ----


class Manager:
    """In systemd's place: a datagram socket, and a server that was told of it."""

    def __init__(self, data, name, *options, **environment):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.settimeout(NOTIFY_S)
        kept = {key: value for key, value in os.environ.items() if key not in ("WATCHDOG_USEC", "WATCHDOG_PID")}
        self.process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth", *options],
                                        env={**kept, "NOTIFY_SOCKET": name, **environment},
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def hears(self, *left_out):
        """The next message that is none of these."""
        while True:
            text = self.socket.recv(4096).decode()
            if text not in left_out:
                return text

    def close(self):
        stop(self.process)
        self.process.stdout.close()
        self.socket.close()


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_hears_that_the_server_is_ready_and_that_it_stops(tmp_path, abstract):
    manager = Manager(tmp_path / "data", f"@gatehouse-test-{os.getpid()}" if abstract else str(tmp_path / "notify"))
    try:
        assert manager.hears() == "READY=1"
        line_with_endpoint(manager.process)
        manager.process.terminate()
        assert manager.hears() == "STOPPING=1"
        assert manager.process.wait(NOTIFY_S) == 0
    finally:
        manager.close()


def test_the_watchdog_hears_of_the_server_twice_in_its_time(tmp_path):
    manager = Manager(tmp_path / "data", str(tmp_path / "notify"), WATCHDOG_USEC="200000")
    try:
        assert manager.hears("WATCHDOG=1") == "READY=1"
        began = time.monotonic()
        for _ in range(4):
            assert manager.hears() == "WATCHDOG=1"
        assert time.monotonic() - began >= 0.2  # four pings are three rests of 100 ms at least
    finally:
        manager.close()


def test_a_server_that_starts_again_after_a_failed_flush_is_ready_again_and_never_said_that_it_stops(tmp_path):
    manager = Manager(tmp_path / "data", str(tmp_path / "notify"), "--fault", "commit:0")
    try:
        assert manager.hears() == "READY=1"
        body = {"TableName": "any", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}]}
        request = urllib.request.Request(line_with_endpoint(manager.process), json.dumps(body).encode(),
                                         {"X-Amz-Target": "DynamoDB_20120810.CreateTable", "Content-Type": "application/x-amz-json-1.0"})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=NOTIFY_S)
        assert caught.value.code == 500
        assert manager.hears() == "READY=1"
    finally:
        manager.close()


def test_the_server_serves_on_the_socket_that_the_service_manager_holds_and_leaves_it_open(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        line = 'exec 3<&"$1"; shift; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
        early = socket.create_connection(listening.getsockname(), timeout=NOTIFY_S)  # before the server runs
        early.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        server = subprocess.Popen(["bash", "-c", line, "bash", str(listening.fileno()), program(), "serve", "--listen", address, "--data",
                                   tmp_path / "data", "--no-auth"], pass_fds=[listening.fileno()], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        try:
            assert line_with_endpoint(server) == f"http://{address}"
            assert early.recv(4096).startswith(b"HTTP/1.1 200 ")
        finally:
            stop(server)
            server.stdout.close()
            early.close()
        assert server.returncode == 0
        socket.create_connection(listening.getsockname(), timeout=NOTIFY_S).close()  # still open for the next one

"""The package, the man pages, the completion, the service and the rules of Prometheus. What a machine lacks a tool for is skipped by name."""
import json
import os
import pathlib
import platform
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from harness import RIVULET, RivuletTest, main  # noqa: E402

BUILD = pathlib.Path(RIVULET).parent
DEPLOY = ROOT / "deploy"


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, f"there is no {', '.join(missing)}")


def run(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    return done.returncode, done.stdout


class Manual(RivuletTest):
    def pages(self):
        self.run_rivulet("manual", "--out", self.path("man/man1"), code=0)
        return sorted((self.folder / "man/man1").iterdir())

    def test_there_is_a_page_for_every_command_that_says_what_its_help_does(self):
        pages = {page.name for page in self.pages()}
        self.assertIn("rivulet-client.1", pages)
        todo = [["rivulet"]]
        while todo:
            path = todo.pop()
            self.assertIn("-".join(path) + ".1", pages)
            text = self.run_rivulet(*path[1:], "--help", code=0).out
            page = (self.folder / "man/man1" / ("-".join(path) + ".1")).read_text().replace("\\-", "-")
            for option in re.findall(r"^  (?:-h,)?(--[a-z-]+)", text, re.M):
                # The page is that of the program rivulet-client, which loads no code.
                if path == ["rivulet", "client"] and option in ("--op-library", "--algorithm-library"):
                    continue
                self.assertIn(f".B {option}", page, path)
            if "Subcommands:" in text:
                block = text.split("Subcommands:\n", 1)[1].split("\n\n", 1)[0]
                todo += [path + [child] for child in re.findall(r"^  (\S+)", block, re.M)]

    def test_the_page_of_scenarios_has_every_key(self):
        self.run_rivulet("manual", "--section", "5", "--out", self.path("man/man5"), code=0)
        self.assertEqual([page.name for page in (self.folder / "man/man5").iterdir()], ["rivulet-scenario.5"])
        page = (self.folder / "man/man5/rivulet-scenario.5").read_text().replace("\\-", "-")
        keys = re.findall(r"^\| `([a-z_.0-9]+)` \|", (ROOT / "docs/reference/scenario.md").read_text(), re.M)
        self.assertGreater(len(keys), 100)
        for key in keys:
            self.assertIn(f".B {key} = ", page)
        self.assert_refused(self.run_rivulet("manual", "--section", "3", "--out", self.path("man/man3")), "--section", code=2)

    @needs("man", "groff")
    def test_man_shows_them_without_a_warning(self):
        self.run_rivulet("manual", "--section", "5", "--out", self.path("man/man5"), code=0)
        for page in [*self.pages(), self.folder / "man/man5/rivulet-scenario.5"]:
            if page.stem in ("rivulet", "rivulet-scenario", "rivulet-ca", "rivulet-ca-kit", "rivulet-simulate"):
                code, printed = run("man", "--warnings=w", "-E", "UTF-8", "-l", page,
                                    env={**os.environ, "MANWIDTH": "100", "MANROFFOPT": "-ww", "LC_ALL": "C.UTF-8"})
                self.assertEqual(code, 0, printed)
                self.assertNotIn("warning", printed)
                self.assertIn("SYNOPSIS" if page.suffix == ".1" else "client.epochs", printed)


class Watching(unittest.TestCase):
    """What deploy/ has for Prometheus and Grafana speaks of metrics that there are (docs/guide/operations.md, which a test of the
    coordinator holds against what it tells)."""

    def known(self):
        page = (ROOT / "docs/guide/operations.md").read_text()
        return set(re.findall(r"`((?:rivulet|process)_[a-z_]+)`", page))

    def test_rules_and_dashboard_name_no_other_metric(self):
        rules = (DEPLOY / "prometheus/rivulet-alerts.yml").read_text()
        dashboard = json.loads((DEPLOY / "grafana/rivulet.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        self.assertGreater(len(expressions), 9)
        for text in (rules, *expressions):
            named = set(re.findall(r"\b(?:rivulet|process)_[a-z_]+", text))
            self.assertTrue(named)
            self.assertLessEqual(named, self.known())

    @needs("promtool")
    def test_promtool_takes_the_rules_and_what_they_are_to_say(self):
        for command in (["check", "rules", "rivulet-alerts.yml"], ["test", "rules", "rivulet-alerts-test.yml"],
                        ["check", "config", "--syntax-only", "prometheus.yml"]):
            code, printed = run("promtool", *command, cwd=DEPLOY / "prometheus")
            self.assertEqual(code, 0, printed)


class Completion(RivuletTest):
    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "PATH": f"{pathlib.Path(RIVULET).parent}:{os.environ['PATH']}", "HOME": str(self.folder)}

    def script(self, shell):
        return self.write(f"completion.{shell}", self.run_rivulet("completion", shell, code=0).out)

    def complete(self, *words):
        quoted = " ".join(f"'{word}'" for word in words)
        code, printed = run("bash", "-c", f"source {self.script('bash')}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _rivulet; "
                            "printf '%s\\n' \"${COMPREPLY[@]}\"", cwd=self.folder, env=self.environment)
        self.assertEqual(code, 0, printed)
        return printed.split()

    def test_commands_options_and_files(self):
        self.assertIn("simulate", self.complete("rivulet", "s"))
        self.assertEqual(self.complete("rivulet", "compl"), ["completion"], "what people are not shown")
        self.assertEqual(self.complete("rivulet", "ca", "re"), ["request", "renew", "revoke"])
        self.assertIn("--reason", self.complete("rivulet", "ca", "revoke", "client/a", "--re"))
        self.assertIn("--vlog", self.complete("rivulet", "ca", "init", "--v"))
        self.assertEqual(self.complete("rivulet", "simulate", "tin"), ["tiny.toml"])
        self.assertEqual(self.complete("rivulet", "simulate", "--db", "tin"), ["tiny.toml"])
        self.assertEqual(self.complete("rivulet", "--verb"), [])
        self.assertEqual(self.complete("rivulet", "simulate", "--rounds", "t"), [], "a number")
        self.assertEqual(self.complete("rivulet", "simulate", "--device", "c"), ["cpu", "check"])
        self.assertEqual(self.complete("rivulet", "completion", "--prog"), ["--progress"])
        self.assertEqual(self.complete("rivulet-client", "--coo"), ["--coordinator"])
        self.assertEqual(self.complete("rivulet-client", "re"), ["request"])

    def test_runs_keys_and_scenarios_are_asked_for(self):
        self.assertEqual(self.complete("rivulet", "simulate", "quicks"), ["quickstart"])
        self.assertEqual(self.complete("rivulet", "simulate", "tiny.toml", "--set", "client.ep"), ["client.epochs="])
        self.assertEqual(self.complete("rivulet", "simulate", "tiny.toml", "--set", "server.download", "=", "b"), ["bf16"])
        self.assertEqual(self.complete("rivulet", "simulate", "tiny.toml", "--set", "client.shuffle", "="), ["true", "false"])
        self.assertEqual(self.complete("rivulet", "runs", "show", "l"), ["latest"], "without a history")
        self.run_rivulet("simulate", self.scenario, "--rounds", "1", "--db", self.path("a.sqlite"), code=0)
        (run_id,) = self.query("SELECT run_id FROM runs", db="a.sqlite")[0]
        self.assertEqual(self.complete("rivulet", "runs", "show", "--db", "a.sqlite", "t"), [run_id])
        self.assertEqual(self.complete("rivulet", "simulate", "tiny.toml", "--db", "a.sqlite", "--resume", "t"), [run_id])

    @needs("zsh")
    def test_zsh_completes(self):
        """In a terminal, as zsh's completion reads keys: after a tab the line is printed."""
        script = self.script("zsh")
        self.assertEqual(run("zsh", "-n", script), (0, ""))
        setup = (f"autoload -Uz compinit; compinit -u -D; source {script}; show() {{ print -r -- \"<<$BUFFER>>\" }}; zle -N show; "
                 "bindkey '^X' show; PS1='ready> '; unsetopt beep")
        for typed, line in (("rivulet ca revo", "rivulet ca revoke "), ("rivulet simulate quicks", "rivulet simulate quickstart "),
                            ("rivulet simulate --set client.ep", "rivulet simulate --set client.epochs="),
                            ("rivulet simulate --set client.shuffle=t", "rivulet simulate --set client.shuffle=true "),
                            ("rivulet runs show lat", "rivulet runs show latest "), ("rivulet simulate --dev", "rivulet simulate --device "),
                            ("rivulet-client requ", "rivulet-client request ")):
            with self.subTest(typed):
                self.assertEqual(self.typed_in_zsh(setup, typed), line)

    @needs("zsh")
    def test_zsh_loads_it_from_a_folder_of_functions(self):
        script = pathlib.Path(self.script("zsh")).read_text()
        for program in ("rivulet", "rivulet-client"):  # as the packages install it
            self.write(f"{program}-functions/_{program}", script)
            setup = (f"fpath=($PWD/{program}-functions $fpath); autoload -Uz compinit; compinit -u -D; show() {{ print -r -- \"<<$BUFFER>>\" }}; "
                     "zle -N show; bindkey '^X' show; PS1='ready> '; unsetopt beep")
            # The second tab is no longer the one that loads it.
            self.assertEqual(self.typed_in_zsh(setup, "rivulet-client requ\t--ou"), "rivulet-client request --out ", program)

    def typed_in_zsh(self, setup, typed):
        # The setup is a start-up file: typed, the terminal would show its words among those that are looked for.
        self.write(".zshrc", setup)
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "--no-global-rcs", "-i"], {**self.environment, "TERM": "dumb", "ZDOTDIR": str(self.folder)})
        try:
            self.read_until(terminal, "ready> ")
            os.write(terminal, f"{typed}\t\x18".encode())
            return self.read_until(terminal, r"<<(.*)>>")[1]
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)

    def read_until(self, terminal, pattern):
        text, deadline = "", time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                text += os.read(terminal, 65536).decode(errors="replace")
                found = re.search(pattern, text)
                if found:
                    return found
        self.fail(f"no {pattern!r} in {text!r}")

    @needs("fish")
    def test_fish_completes(self):
        script = self.script("fish")
        self.assertEqual(run("fish", "--no-execute", script), (0, ""))
        for typed, words in (("rivulet ca re", {"request", "renew", "revoke"}), ("rivulet simulate quicks", {"quickstart"}),
                             ("rivulet simulate tiny.toml --set client.ep", {"client.epochs="}),
                             ("rivulet simulate tiny.toml --set client.shuffle=t", {"client.shuffle=true"}),
                             ("rivulet runs show lat", {"latest"}), ("rivulet simulate --device c", {"cpu", "check"}),
                             ("rivulet simulate tin", {"tiny.toml"}), ("rivulet-client requ", {"request"})):
            code, printed = run("fish", "--no-config", "-c", f"source {script}; complete -C '{typed}'", cwd=self.folder, env=self.environment)
            self.assertEqual((code, {line.split("\t")[0] for line in printed.splitlines()}), (0, words), typed)

    def test_other_shells_scripts_have_the_same_words(self):
        """Also where neither is installed: every option of a command is in each script."""
        scripts = {shell: self.run_rivulet("completion", shell, code=0).out for shell in ("bash", "zsh", "fish")}
        options = re.findall(r"^  (--[a-z0-9-]+)", self.run_rivulet("simulate", "--help", code=0).out, re.M)
        self.assertGreater(len(options), 15)
        fish = "\n".join(line for line in scripts["fish"].splitlines() if "'__rivulet_at rivulet simulate'" in line)
        zsh = scripts["zsh"].split('"rivulet simulate")\n', 1)[1].split(";;", 1)[0]
        (bash,) = re.findall(r'^    "rivulet simulate"\) .*$', scripts["bash"], re.M)
        for option in options:
            self.assertIn(f" -l {option[2:]} ", fish + " ")
            self.assertIn(f"'{option}:", zsh)
            self.assertIn(f"{option} ", bash.replace("'", " "))
        self.assert_refused(self.run_rivulet("completion", "csh"), "'csh'", "bash, zsh or fish", code=2)

    @needs("shellcheck")
    def test_scripts_are_clean(self):
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "kit", "client/a", "--coordinator", "h:1", "--out", "client", code=0)
        self.run_rivulet("ca", "kit", "coordinator/h", "--out", "coordinator", code=0)
        script = self.write("completion.bash", self.run_rivulet("completion", code=0).out)
        for path in (script, self.path("client/start"), self.path("coordinator/start"), DEPLOY / "debian/postinst",
                     DEPLOY / "debian/prerm", DEPLOY / "debian/postrm"):
            shell = "bash" if path == script else "sh"
            code, printed = run("shellcheck", "--shell", shell, "--exclude", "SC1091,SC2154", path)
            self.assertEqual(code, 0, printed)


class Service(RivuletTest):
    @needs("systemd-analyze")
    def test_the_unit_is_right_and_shut(self):
        # As it will find things: the program's folder of a kit, and the manual.
        unit = self.write("rivulet@client-a.service", (DEPLOY / "systemd/rivulet@.service").read_text().replace(
            "ExecStart=/var/lib/rivulet/%i/start", "ExecStart=/bin/true"))
        code, printed = run("systemd-analyze", "verify", "--man=no", unit)
        self.assertEqual((code, printed), (0, ""))
        code, printed = run("systemd-analyze", "security", "--offline=yes", "--threshold=15", unit)
        self.assertEqual(code, 0, printed[-300:])

    def test_it_is_started_again_unless_a_setting_is_wrong_has_bounded_memory_and_leaves_no_core(self):
        settings = dict(line.split("=", 1) for line in (DEPLOY / "systemd/rivulet@.service").read_text().splitlines()
                        if re.match(r"[A-Z]\w+=", line))
        self.assertEqual([settings[key] for key in ("Restart", "RestartPreventExitStatus", "StartLimitIntervalSec", "LimitCORE", "User",
                                                    "MemoryMax")],
                         ["on-failure", "2", "0", "0", "rivulet", "80%"])
        wrong = self.run_rivulet("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--set", "run.rounds=none")
        self.assertEqual(wrong.code, 2, wrong)

    def test_removal_stops_the_services_and_an_upgrade_does_not(self):
        (self.folder / "system").mkdir()
        script = self.write("prerm", (DEPLOY / "debian/prerm").read_text().replace("/run/systemd/system", self.path("system")))
        self.write("bin/systemctl", f"#!/bin/sh\necho \"$*\" >>{self.path('told')}\n")
        os.chmod(self.path("bin/systemctl"), 0o755)
        environment = {**os.environ, "PATH": f"{self.path('bin')}:{os.environ['PATH']}", "DPKG_MAINTSCRIPT_PACKAGE": "rivulet-client"}
        for action in ("upgrade", "remove"):
            self.assertEqual(run("sh", script, action, env=environment), (0, ""))
        self.assertEqual((self.folder / "told").read_text(), "stop rivulet-client@*.service\n")

    @needs("systemd-sysusers")
    def test_its_user_can_be_made(self):
        (self.folder / "root/etc").mkdir(parents=True)
        code, printed = run("systemd-sysusers", f"--root={self.folder / 'root'}", DEPLOY / "systemd/rivulet.conf")
        self.assertEqual(code, 0, printed)
        self.assertRegex((self.folder / "root/etc/passwd").read_text(), r"(?m)^rivulet:.*:/var/lib/rivulet:/usr/sbin/nologin$")

    def test_a_kits_configuration_is_what_systemd_and_the_shell_read_alike(self):
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        name = "a $HOME `id` \"q\" \\ 'é'"
        self.run_rivulet("ca", "kit", "client/a", "--coordinator", "h:1", "--data", name, "--out", "kit", code=0)
        code, printed = run("sh", "-c", '. ./site.conf; printf "%s" "$RIVULET_DATA"', cwd=self.folder / "kit")
        self.assertEqual((code, printed), (0, name))


def libraries_of(program):
    """What the loader opens for it, by file."""
    return {os.path.basename(name) for name in re.findall(r"=> (/\S+)", run("ldd", program)[1])}


DISTRIBUTION = platform.freedesktop_os_release()["ID"]


class SoftwareList:
    """What holds for a list of dependencies (SPDX 2.3, https://spdx.github.io/spdx-spec/v2.3) of a program. For a RivuletTest."""

    def assert_lists(self, path, program):
        document = json.loads(pathlib.Path(path).read_text())
        self.assertEqual(set(document), {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages",
                                         "relationships"})
        self.assertEqual((document["spdxVersion"], document["dataLicense"], document["SPDXID"]),
                         ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(document["documentNamespace"], r"^https://[^#\s]+$")
        self.assertRegex(document["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(document["creationInfo"]["creators"][0], "^Tool: ")
        ids, linked, compiled_in = {document["SPDXID"]}, set(), 0
        for package in document["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertNotIn(package["SPDXID"], ids)
            ids.add(package["SPDXID"])
            self.assertEqual((package["downloadLocation"], package["filesAnalyzed"]), ("NOASSERTION", False))
            self.assertLessEqual({"name", "versionInfo", "supplier", "licenseConcluded", "licenseDeclared", "copyrightText"}, set(package))
            if package["SPDXID"] == "SPDXRef-program":
                continue
            # Known, and an expression of words that SPDX has; a new library wants a line in cmake/licences.txt.
            self.assertRegex(package["licenseDeclared"], r"^[A-Za-z0-9.-]+( (AND|OR|WITH) [A-Za-z0-9.-]+)*$")
            self.assertNotEqual(package["licenseDeclared"], "NOASSERTION", package)
            reference, = package["externalRefs"]
            self.assertEqual((reference["referenceCategory"], reference["referenceType"]), ("PACKAGE-MANAGER", "purl"))
            self.assertRegex(reference["referenceLocator"], rf"^pkg:deb/{DISTRIBUTION}/[a-z0-9.%A-F+-]+@[^@:?+]+\?arch=\w+$")
            how, _, files = package["comment"].partition(": ")
            compiled_in += how == "compiled in"
            linked |= set(files.split(", ")) if how == "linked" else set()
        self.assertEqual(linked, libraries_of(program))
        # Boost, whose headers the pages of runs are served with, is in `rivulet` alone.
        names = {package["name"] for package in document["packages"]}
        self.assertEqual(compiled_in, 4 if "libboost-dev" in names else 3)
        if program.name == "rivulet-client":
            self.assertNotIn("libboost-dev", names)
        for relationship in document["relationships"]:
            self.assertIn(relationship["relationshipType"], ("DESCRIBES", "DYNAMIC_LINK", "CONTAINS"))
            self.assertLessEqual({relationship["spdxElementId"], relationship["relatedSpdxElement"]}, ids)
        self.assertEqual({relationship["relatedSpdxElement"] for relationship in document["relationships"]}, ids - {"SPDXRef-DOCUMENT"})
        return {package["name"] for package in document["packages"]}


class Distribution(RivuletTest):
    @needs("cmake", "dpkg-query")
    def test_packages_are_those_of_the_distribution_that_is_there(self):
        release = self.write("os-release", 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nNAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n')
        code, printed = run("cmake", f"-DPROGRAM={RIVULET}", "-DNAME=rivulet", "-DVERSION=1.0", "-DHEADERS=", f"-DOS_RELEASE={release}",
                            f"-DOUT={self.path('list.json')}", "-P", ROOT / "cmake/Spdx.cmake")
        self.assertEqual(code, 0, printed)
        packages = [package for package in json.loads((self.folder / "list.json").read_text())["packages"] if "externalRefs" in package]
        self.assertGreater(len(packages), 3)
        for package in packages:
            self.assertRegex(package["externalRefs"][0]["referenceLocator"], r"^pkg:deb/ubuntu/")
            self.assertRegex(package["supplier"], r"^Organization: Ubuntu \(")


@needs("cpack", "dpkg-deb", "dpkg-shlibdeps", "file")
@unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "a package is made of what is released")
@unittest.skipUnless(os.access(BUILD, os.W_OK), "cpack writes its list of what it installed into the build, which is read-only")
class Package(SoftwareList, RivuletTest):
    def test_each_package_has_its_program_with_pages_and_service(self):
        code, printed = run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", self.folder, cwd=self.folder,
                            env={**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2"})
        self.assertEqual(code, 0, printed)
        packages = {path.name.split("_")[0]: path for path in self.folder.glob("*.deb")}
        mpi, cuda = (packages.pop(f"rivulet-{plugin}", None) for plugin in ("mpi", "cuda"))
        self.assertEqual(mpi is not None, (BUILD / "librivulet-mpi.so").exists())
        self.assertEqual(cuda is not None, (BUILD / "librivulet_cuda.so").exists())
        if cuda is not None:
            self.assertIn("./usr/lib/rivulet/librivulet_cuda.so\n", run("dpkg-deb", "--contents", cuda)[1])
        if mpi is not None:
            self.assertIn("./usr/lib/rivulet/librivulet-mpi.so\n", run("dpkg-deb", "--contents", mpi)[1])
            self.assertIn("openmpi", run("dpkg-deb", "--field", mpi)[1])
        self.assertEqual(sorted(packages), ["rivulet", "rivulet-client"], printed)
        files, roots = {}, {}
        for name, package in packages.items():
            self.assertRegex(package.name, rf"^{name}_\d+\.\d+\.\d+_\w+\.deb$")
            fields = run("dpkg-deb", "--field", package)[1]
            self.assertRegex(fields, rf"(?m)^Package: {name}$")
            for library in ("libgrpc++1.51", "libssl3", "libdnnl2"):
                self.assertIn(library, fields)
            self.assertEqual("libsqlite3-0" in fields, name == "rivulet")
            self.assertRegex(run("dpkg-deb", "--info", package)[1], r"\sprerm\s")
            listing = run("dpkg-deb", "--contents", package)[1]
            for path in (f"usr/bin/{name}", f"usr/share/man/man1/{name}.1", f"usr/share/bash-completion/completions/{name}",
                         f"usr/lib/systemd/system/{name}@.service", f"usr/lib/sysusers.d/{name}.conf",
                         f"usr/share/doc/{name}/{name}.spdx.json"):
                self.assertIn(f"./{path}\n", listing)
            self.assertNotIn("include/", listing)
            self.assertNotIn(".a\n", listing)
            files[name] = {line.split(" ./", 1)[1] for line in listing.splitlines() if not line.startswith("d")}
            roots[name] = self.folder / f"root-{name}"
            code, printed = run("dpkg-deb", "--extract", package, roots[name])
            self.assertEqual(code, 0, printed)
            code, printed = run(roots[name] / "usr/bin" / name, "--version")
            self.assertRegex(printed, rf"^{name} \d")
            listed = self.assert_lists(roots[name] / f"usr/share/doc/{name}/{name}.spdx.json", roots[name] / "usr/bin" / name)
            self.assertLessEqual({"libssl3", "libeigen3-dev"}, listed)
            self.assertEqual("libsqlite3-0" in listed, name == "rivulet")
        # A machine may have both.
        self.assertEqual(files["rivulet"] & files["rivulet-client"], set())
        for path in ("man/man1/rivulet-ca-kit.1", "man/man5/rivulet-scenario.5", "zsh/vendor-completions/_rivulet",
                     "fish/vendor_completions.d/rivulet.fish", "doc/rivulet/docs/reference/scenario.md"):
            self.assertIn(f"usr/share/{path}", files["rivulet"])
        for path in ("zsh/vendor-completions/_rivulet-client", "fish/vendor_completions.d/rivulet-client.fish"):
            self.assertIn(f"usr/share/{path}", files["rivulet-client"])
        self.assertEqual(sorted(name for name in files["rivulet-client"] if "/man1/" in name), [
            "usr/share/man/man1/rivulet-client-request.1", "usr/share/man/man1/rivulet-client-verify.1", "usr/share/man/man1/rivulet-client.1"])
        unit = (roots["rivulet-client"] / "usr/lib/systemd/system/rivulet-client@.service").read_text()
        self.assertIn("man:rivulet-client(1)", unit)
        self.assertIn("ExecStart=/var/lib/rivulet/%i/start", unit)
        self.assertLessEqual((roots["rivulet-client"] / "usr/bin/rivulet-client").stat().st_size, 13_000_000)


if __name__ == "__main__":
    main()

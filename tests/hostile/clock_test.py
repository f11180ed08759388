"""The authority's clock jumps: what it signs then is refused by those whose clock is right, no list that it signs readmits anybody, and
it goes on where it was once the clock is set. By libfaketime, which sets the clock of `rivulet ca` alone."""
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from world import CALLS, HAS_OPENSSL, World, ask, grpc  # noqa: E402
import requests  # noqa: E402

from harness import main  # noqa: E402

FAKE_TIME = "" if os.environ.get("RIVULET_SANITIZE") else next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")


@unittest.skipUnless(FAKE_TIME, "there is no libfaketime")
@unittest.skipUnless(grpc, "needs gRPC (Debian's python3-grpcio)")
@unittest.skipUnless(HAS_OPENSSL, "needs openssl")
class Clock(World):
    def setUp(self):
        super().setUp()
        self.make_authority()

    def ca(self, clock, *arguments, code=0):
        return self.run_rivulet("ca", *arguments, code=code, env={"LD_PRELOAD": FAKE_TIME, "FAKETIME": clock, "FAKETIME_DONT_FAKE_MONOTONIC": "1"})

    def list_number(self, path="ca/revoked.crl"):
        told = subprocess.run(["openssl", "crl", "-in", self.path(path), "-noout", "-crlnumber"], capture_output=True, text=True, check=True)
        return int(told.stdout.split("0x")[1], 16)

    def poll(self, port, folder):
        return ask(self.channel(port, folder), CALLS["Coordinator.Poll"], *requests.poll(0)(""))[0]

    def test_certificates_signed_under_another_clock(self):
        for clock, folder in (("+30d", "soon"), ("+3000d", "later"), ("-30m", "just-before")):
            self.ca(clock, "issue", f"client/{folder}", "--out", folder)
        for clock in ("-30d", "-4000d", "1970-01-02 00:00:00"):
            result = self.ca(clock, "issue", "client/never", "--out", "never", code=1)
            self.assert_refused(result, "the authority 'study' begins on", "set the clock")
            self.assertFalse((self.folder / "never").exists())
            self.assert_refused(self.ca(clock, "renew", "client/a", "--out", "never.crt", code=1), "set the clock")
            self.assert_refused(self.ca(clock, "kit", "client/never", "--coordinator", "h:1", code=1), "set the clock")
        self.assert_refused(self.ca("+4000d", "issue", "client/never", "--out", "never", code=1), "ended on")
        coordinator, port = self.start_coordinator(scenario=False)
        self.assertEqual(self.poll(port, "a"), "OK")
        self.assertEqual(self.poll(port, "just-before"), "OK")
        for folder in ("soon", "later"):
            self.assertEqual(self.poll(port, folder), "UNAVAILABLE")
            self.said("coordinator", rf"the certificate of 'client/{folder}' begins \d{{4}}-.*, and here it is .*; set the clock")
        # Renewed by a clock that is right, it is good at once.
        self.run_rivulet("ca", "renew", "client/soon", "--out", "soon.crt", code=0)
        shutil.copy(self.folder / "soon.crt", self.folder / "soon/node.crt")
        self.assertEqual(self.poll(port, "soon"), "OK")
        self.assert_lives(coordinator, "coordinator")

    def test_lists_signed_while_the_clock_jumps(self):
        """Their numbers only grow, whatever the clock says; each is in force as it arrives, and none readmits."""
        clocks = ["+0d", "+300d", "-30d", "+3000d", "-4000d", "1970-01-02 00:00:00", "+0d"]
        names = [f"client-{i}" for i in range(len(clocks))]
        for name in names:
            # Good for as long as the authority, so that no clock of these takes it for one that has ended.
            self.callers.issue(f"client/{name}", name, "--days", "3649")
        coordinator, port = self.start_coordinator(scenario=False)
        numbers, lists = [self.list_number()], []
        for clock, name in zip(clocks, names):
            with self.subTest(clock):
                self.assertEqual(self.poll(port, name), "OK")
                self.ca(clock, "revoke", f"client/{name}")
                numbers.append(self.list_number())
                self.assertGreater(numbers[-1], numbers[-2])
                lists.append((self.folder / "ca/revoked.crl").read_bytes())
                (self.folder / "coordinator/revoked.crl").write_bytes(lists[-1])
                self.wait_for(lambda: self.poll(port, name) == "UNAVAILABLE", f"the refusal of {name}", 20)
        for earlier in lists[:-1]:
            (self.folder / "coordinator/revoked.crl").write_bytes(earlier)
        self.said("coordinator", "is older than the last one, .* stays in force")
        for name in names:
            self.assertEqual(self.poll(port, name), "UNAVAILABLE")
        self.assertEqual(self.poll(port, "a"), "OK")
        listed = self.run_rivulet("ca", "list", code=0).out
        self.assertFalse([name for name in names if re.search(rf"client/{name}\s+valid", listed)], listed)
        self.assert_lives(coordinator, "coordinator")

    def test_a_list_whose_next_one_is_overdue(self):
        """It warns and stays in force: an attacker who withholds lists readmits nobody."""
        self.callers.issue("client/gone", "gone")
        coordinator, port = self.start_coordinator(scenario=False)
        self.assertEqual(self.poll(port, "gone"), "OK")
        self.run_rivulet("ca", "revoke", "client/gone", code=0)
        config = self.write("list.conf", "[ca]\ndefault_ca=a\n[a]\ndatabase={0}/list.index\ncrlnumber={0}/list.number\ndefault_md=sha256\n"
                            "crl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid\n".format(self.folder))
        shown = subprocess.run(["openssl", "x509", "-in", self.path("gone/node.crt"), "-noout", "-serial"], capture_output=True, text=True)
        serial = shown.stdout.strip().split("=")[1]
        self.write("list.index", f"R\t361231235959Z\t200102000000Z,keyCompromise\t{serial}\tunknown\t/CN=gone\n")
        self.write("list.number", f"{self.list_number() + 5:016x}\n")
        subprocess.run(["openssl", "ca", "-gencrl", "-config", config, "-cert", self.path("ca/authority.crt"), "-keyfile",
                        self.path("ca/authority.key"), "-crl_lastupdate", "20200102000000Z", "-crl_nextupdate", "20200201000000Z", "-out",
                        self.path("overdue.crl")], check=True, capture_output=True)
        shutil.copy(self.folder / "overdue.crl", self.folder / "coordinator/revoked.crl")
        self.wait_for(lambda: self.poll(port, "gone") == "UNAVAILABLE", "the refusal", 20)
        self.said("coordinator", "was to be replaced before 2020-02-01; it stays in force")
        self.assertEqual(self.poll(port, "a"), "OK")
        self.assert_lives(coordinator, "coordinator")


if __name__ == "__main__":
    main()

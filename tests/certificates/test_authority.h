// An authority in a test's own folder, with a clock that the test sets.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "certificates/authority.h"
#include "certificates/identity.h"
#include "certificates/key.h"
#include "certificates/kit.h"
#include "engine/base/clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::testing {

// In memory: the tests simulate a hundred crashes, with a sync each.
class AuthorityTest : public FolderTest {
 protected:
  AuthorityTest() : FolderTest(TempFolder::Place::kMemory) {}

  Status Init(const std::string& folder = "ca", int days = kAuthorityDays) {
    return Authority::Init(fs_, clock_, Path(folder), "Heart study", days);
  }
  StatusOr<std::unique_ptr<Authority>> Open(const std::string& folder = "ca") {
    return Authority::OpenToSign(fs_, clock_, Path(folder));
  }
  static CertificateName Name(std::string_view text) { return ParseCertificateName(text).value(); }
  static Subject SubjectOf(std::string_view text, std::vector<std::string> hosts = {}) {
    return {.name = Name(text), .hosts = std::move(hosts)};
  }

  // Makes a folder `out` with key and certificate, like `rivulet ca issue`.
  StatusOr<IndexRow> Issue(FileSystem& fs, const Subject& subject, const std::string& out,
                           std::optional<int64_t> days = std::nullopt, const std::string& folder = "ca") {
    RIVULET_ASSIGN_OR_RETURN(const auto authority, Authority::OpenToSign(fs, clock_, Path(folder)));
    RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, MakeKey());
    RIVULET_ASSIGN_OR_RETURN(const std::string key_pem, KeyPem(key.get()));
    Delivery delivery(fs, Path(out), out.ends_with(".tar.gz") ? Delivery::Form::kArchive : Delivery::Form::kFolder);
    return authority->Issue({.subject = subject,
                             .days = days,
                             .public_key = key.get(),
                             .files =
                                 [&](const Certificate& certificate) {
                                   return FilesOfNode({.key = key_pem,
                                                       .certificate = certificate.Pem(),
                                                       .authority = authority->certificate().Pem(),
                                                       .revoked = authority->revocation_list()});
                                 }},
                            delivery);
  }
  StatusOr<IndexRow> Issue(const std::string& name, const std::string& out, std::vector<std::string> hosts = {},
                           std::optional<int64_t> days = std::nullopt, const std::string& folder = "ca") {
    return Issue(fs_, SubjectOf(name, std::move(hosts)), out, days, folder);
  }
  StatusOr<NodeIdentity> Load(const std::string& folder) { return LoadIdentity(fs_, clock_, Path(folder)); }
  int64_t now() const { return clock_.UnixMs() / 1000; }
  void PassDays(int64_t days) { clock_.Advance(days * kSecondsPerDay * 1000); }

  FileSystem& fs_ = FileSystem::Default();
  ManualClock clock_;
};

}  // namespace rivulet::testing

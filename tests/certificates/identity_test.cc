#include "certificates/identity.h"

#include <sys/stat.h>

#include "certificates/request.h"
#include "tests/certificates/test_authority.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Identities : public AuthorityTest {
 protected:
  void SetUp() override {
    ASSERT_OK(Init());
    ASSERT_OK(Issue("client/a", "a"));
  }
  // The certificate of `folder` as a peer shows it.
  std::string Shown(const std::string& folder) const { return ContentOf(Path(folder + "/node.crt")); }
};

TEST_F(Identities, Load_GivesNameAndPems) {
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_EQ(identity.name.Uri(), "rivulet:client/a");
  EXPECT_EQ(identity.certificate_pem, Shown("a"));
  EXPECT_EQ(identity.key_pem, ContentOf(Path("a/node.key")));
  EXPECT_EQ(identity.authority_pem, ContentOf(Path("ca/authority.crt")));
  ASSERT_TRUE(identity.revoked.has_value());
}

TEST_F(Identities, LoadWithoutAFile_NamesIt) {
  for (const char* file : {"node.key", "node.crt", "authority.crt"}) {
    ASSERT_OK(fs_.Rename(Path("a/") + file, Path("kept")));
    EXPECT_THAT(Load("a"), StatusIs(absl::StatusCode::kNotFound, HasSubstr(fmt::format("{}' is missing", file))));
    ASSERT_OK(fs_.Rename(Path("kept"), Path("a/") + file));
  }
  // Nobody connects to a client: it lives without the list.
  ASSERT_OK(fs_.Remove(Path("a/revoked.crl")));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_FALSE(identity.revoked.has_value());
}

TEST_F(Identities, LoadOfWhatIsDamaged_NamesIt) {
  for (const char* file : {"node.key", "node.crt", "authority.crt", "revoked.crl"}) {
    const std::string kept = ContentOf(Path("a/") + file);
    Write(std::string("a/") + file, "-----BEGIN JUNK-----\n");
    EXPECT_THAT(Load("a"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(fmt::format("a/{}' holds no", file))));
    Write(std::string("a/") + file, kept);
  }
  EXPECT_OK(Load("a"));
}

TEST_F(Identities, KeyOfAnother_IsRefused) {
  ASSERT_OK(Issue("client/b", "b"));
  ASSERT_OK(fs_.Rename(Path("b/node.key"), Path("a/node.key")));
  EXPECT_THAT(Load("a"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not that of node.crt beside it")));
}

TEST_F(Identities, KeyThatEverybodyMayRead_IsRefused) {
  ASSERT_EQ(chmod(Path("a/node.key").c_str(), 0644), 0);
  EXPECT_THAT(Load("a"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600 it")));
  ASSERT_EQ(chmod(Path("a/node.key").c_str(), 0640), 0);
  EXPECT_OK(Load("a"));
}

TEST_F(Identities, Expiry_IsWarnedOfInDaysAndThenRefused) {
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_EQ(ExpiryWarning(identity, now()), "");
  PassDays(353);
  EXPECT_EQ(ExpiryWarning(identity, now()),
            "12 days left: renew the certificate of 'client/a' soon ('rivulet ca renew')");
  EXPECT_OK(Load("a"));
  PassDays(15);
  EXPECT_THAT(Load("a"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("the certificate of 'client/a' expired 3 days ago; renew it ('rivulet ca "
                                            "renew client/a')")));
}

TEST_F(Identities, ClockThatIsBehind_IsToldFromAnExpiredCertificate) {
  clock_.Advance(-2 * 3600 * 1000);
  EXPECT_THAT(Load("a"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("set the clock")));
  clock_.Advance(90 * 60 * 1000);  // half an hour behind is nothing
  EXPECT_OK(Load("a"));
}

TEST_F(Identities, ForeignAuthority_IsRefused) {
  ASSERT_OK(Init("other"));
  ASSERT_OK(Issue("client/a", "b", {}, std::nullopt, "other"));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_THAT(
      VerifyPeer(Shown("b"), identity, CertificatePurpose::kConnect, now()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not signed by the authority 'Heart study'")));
  // Of the same name, and with the list of the other.
  ASSERT_OK(fs_.Rename(Path("b/authority.crt"), Path("a/authority.crt")));
  EXPECT_THAT(Load("a"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not signed by the authority")));
}

TEST_F(Identities, RevokedCertificate_IsRefusedByItsSerial) {
  {
    ASSERT_OK_AND_ASSIGN(const auto authority, Open());
    ASSERT_OK(authority->RevokeName(Name("client/a"), RevocationReason::kKeyCompromise));
  }
  ASSERT_OK(Issue("coordinator/c.example", "c", {"c.example"}));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity coordinator, Load("c"));
  EXPECT_THAT(VerifyPeer(Shown("a"), coordinator, CertificatePurpose::kConnect, now()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("of 'client/a' was revoked on 2025-01-31 (key-compromise)")));
}

TEST_F(Identities, Purpose_KeepsAClientFromServing) {
  ASSERT_OK(Issue("coordinator/c.example", "c", {"c.example"}));
  ASSERT_OK(Issue("aggregator/t", "t", {"t.example"}));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_OK(VerifyPeer(Shown("c"), identity, CertificatePurpose::kServe, now()));
  EXPECT_OK(VerifyPeer(Shown("t"), identity, CertificatePurpose::kServe, now()));
  EXPECT_OK(VerifyPeer(Shown("t"), identity, CertificatePurpose::kConnect, now()));
  EXPECT_THAT(VerifyPeer(Shown("a"), identity, CertificatePurpose::kServe, now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not made to serve others")));
  EXPECT_THAT(VerifyPeer(Shown("c"), identity, CertificatePurpose::kConnect, now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not made to connect to others")));
}

TEST_F(Identities, AuthoritysOwnCertificate_IsNobodys) {
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  EXPECT_THAT(VerifyPeer(identity.authority_pem, identity, CertificatePurpose::kConnect, now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no name of the form rivulet:client/ID")));
}

TEST_F(Identities, EveryCutAndEveryChange_IsAnErrorAndNeverACrash) {
  ASSERT_OK_AND_ASSIGN(const NodeIdentity identity, Load("a"));
  const std::string pem = Shown("a");
  for (size_t size = 0; size < pem.size() - 2; size += 11)
    EXPECT_THAT(VerifyPeer(pem.substr(0, size), identity, CertificatePurpose::kConnect, now()), Not(IsOk()));
  for (size_t at = 30; at + 30 < pem.size(); at += 5) {
    std::string changed = pem;
    if (changed[at] == '\n') continue;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    EXPECT_THAT(VerifyPeer(changed, identity, CertificatePurpose::kConnect, now()), Not(IsOk())) << at;
  }
}

TEST(Quoted, IsWhatAShellReads) {
  EXPECT_EQ(Quoted("plain"), "\"plain\"");
  EXPECT_EQ(Quoted("a $HOME `x` \"q\" \\"), "\"a \\$HOME \\`x\\` \\\"q\\\" \\\\\"");
}

}  // namespace
}  // namespace rivulet::testing

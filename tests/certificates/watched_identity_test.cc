#include "certificates/watched_identity.h"

#include <filesystem>

#include "certificates/ephemeral_authority.h"
#include "tests/certificates/test_authority.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WatchedIdentityTest : public AuthorityTest {
 protected:
  void SetUp() override {
    ASSERT_OK(Init());
    ASSERT_OK(Issue("client/a", "a", {}, 40));
    ASSERT_OK(Issue("client/a2", "other"));
  }
  Status Watch() {
    RIVULET_ASSIGN_OR_RETURN(
        watched_, WatchedIdentity::Open(fs_, clock_, Path("a"),
                                        {.tell = [this](const std::string& told) { told_.push_back(told); }}));
    return absl::OkStatus();
  }
  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_OK(WriteFileAtomically(fs_, Path("a/" + name), bytes));
  }

  std::unique_ptr<WatchedIdentity> watched_;
  std::vector<std::string> told_;
};

TEST_F(WatchedIdentityTest, RevocationList_CountsAtTheNextLookAndNotBefore) {
  ASSERT_OK(Watch());
  const auto before = watched_->Current();
  ASSERT_OK_AND_ASSIGN(const auto authority, Open());
  ASSERT_OK(authority->RevokeName(Name("client/a2"), RevocationReason::kCessation));
  Write("revoked.crl", authority->revocation_list());
  EXPECT_EQ(watched_->Current(), before);
  clock_.Advance(1000);
  EXPECT_TRUE(watched_->Current()->revoked->Contains(Load("other")->serial));
  EXPECT_FALSE(before->revoked->Contains(Load("other")->serial));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("were read again")));
}

TEST_F(WatchedIdentityTest, DaysLeft_AreToldOnceADay) {
  ASSERT_OK(Watch());
  EXPECT_THAT(told_, IsEmpty());
  PassDays(39);
  for (int i = 0; i < 3; ++i) (void)watched_->Look();
  PassDays(2);
  for (int i = 0; i < 3; ++i) (void)watched_->Look();
  EXPECT_THAT(told_, ElementsAre(HasSubstr("1 day left: renew the certificate of 'client/a'"), HasSubstr("expired")));
}

TEST_F(WatchedIdentityTest, FileHalfCopied_IsPassedOverAndOneThatStaysSoIsToldOnce) {
  ASSERT_OK(Watch());
  const std::string whole = ContentOf(Path("a/node.crt"));
  Write("node.crt", whole.substr(0, whole.size() / 2));
  const std::string serial = watched_->Look()->serial;
  Write("node.crt", whole);
  EXPECT_EQ(watched_->Look()->serial, serial);
  told_.clear();
  Write("node.crt", "nothing");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(watched_->Look()->serial, serial);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("the earlier ones stay in force")));
}

TEST_F(WatchedIdentityTest, AnothersFolderOrNoListAnyMore_ChangesNothing) {
  ASSERT_OK(Watch());
  std::filesystem::remove(Path("a/revoked.crl"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(watched_->Look()->revoked.has_value());
  EXPECT_THAT(told_, ElementsAre(HasSubstr("revoked.crl' was removed; put it back")));
  told_.clear();
  for (const char* name : {"node.crt", "node.key", "revoked.crl"}) {
    Write(name, ContentOf(Path(std::string("other/") + name)));
    std::filesystem::permissions(Path(std::string("a/") + name), std::filesystem::perms(0600));
  }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(watched_->Look()->name.id, "a");
  EXPECT_THAT(told_, ElementsAre(HasSubstr("is now of 'client/a2', and this is 'client/a'")));
}

TEST_F(WatchedIdentityTest, ThrownAwayAuthority_SignsWhatOthersOfItBelieve) {
  ASSERT_OK_AND_ASSIGN(const EphemeralAuthority authority, EphemeralAuthority::Create(clock_));
  ASSERT_OK(authority.Issue(SubjectOf("coordinator/localhost", {"127.0.0.1"}), fs_, Path("up-server")));
  ASSERT_OK(authority.Issue(SubjectOf("client/ward 7"), fs_, Path("up-client")));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity server, Load("up-server"));
  ASSERT_OK_AND_ASSIGN(const NodeIdentity client, Load("up-client"));
  EXPECT_OK(VerifyPeer(client.certificate_pem, server, CertificatePurpose::kConnect, now()));
  ASSERT_OK_AND_ASSIGN(const Certificate shown,
                       VerifyPeer(server.certificate_pem, client, CertificatePurpose::kServe, now()));
  EXPECT_OK(VerifyHost(shown, "127.0.0.1"));
  EXPECT_THAT(VerifyHost(shown, "localhost.example"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is for 127.0.0.1 and not for")));
  EXPECT_THAT(
      VerifyPeer(Load("a")->certificate_pem, server, CertificatePurpose::kConnect, now()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not signed by the authority 'rivulet up'; have")));
}

}  // namespace
}  // namespace rivulet::testing

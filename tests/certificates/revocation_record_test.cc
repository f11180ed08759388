// Certificate lists cannot be rolled back: an earlier list does not admit certificates revoked since.
#include "certificates/revocation_record.h"

#include <filesystem>

#include "certificates/watched_identity.h"
#include "tests/certificates/test_authority.h"

namespace rivulet::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RevocationRecordTest : public AuthorityTest {
 protected:
  void SetUp() override {
    ASSERT_OK(Init());
    ASSERT_OK(Issue("client/a", "a", {}, 40));
    ASSERT_OK_AND_ASSIGN(const IndexRow gone, Issue("client/gone", "gone"));
    serial_ = gone.serial;
    earlier_ = ContentOf(Path("ca/revoked.crl"));
    ASSERT_OK_AND_ASSIGN(const auto authority, Open());
    ASSERT_OK(authority->RevokeName(Name("client/gone"), RevocationReason::kKeyCompromise));
    newer_ = authority->revocation_list();
  }
  Status Watch() {
    told_.clear();
    RIVULET_ASSIGN_OR_RETURN(watched_,
                             WatchedIdentity::Open(fs_, clock_, Path("a"),
                                                   {.tell = [this](const std::string& told) { told_.push_back(told); },
                                                    .lists_beside = Path("runs.sqlite")}));
    return absl::OkStatus();
  }
  void PutList(const std::string& pem) { ASSERT_OK(WriteFileAtomically(fs_, Path("a/revoked.crl"), pem)); }
  // What lies there was half a copy at the first look, perhaps.
  bool RefusesGone() {
    (void)watched_->Look();
    return watched_->Look()->revoked->Contains(serial_);
  }

  std::string earlier_, newer_, serial_;
  std::unique_ptr<WatchedIdentity> watched_;
  std::vector<std::string> told_;
};

TEST_F(RevocationRecordTest, EarlierListOverTheNewer_IsRefusedLoggedAndShown) {
  PutList(newer_);
  ASSERT_OK(Watch());
  EXPECT_TRUE(RefusesGone());
  EXPECT_THAT(watched_->Warnings(), IsEmpty());
  PutList(earlier_);
  EXPECT_TRUE(RefusesGone());
  const auto fault = AllOf(HasSubstr("is older than the last one"), HasSubstr("stays in force"));
  EXPECT_THAT(told_, ElementsAre(fault));
  EXPECT_THAT(watched_->Warnings(), ElementsAre(fault));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(RefusesGone());
  EXPECT_THAT(told_, ElementsAre(fault)) << "once";
  PutList(newer_);
  EXPECT_TRUE(RefusesGone());
  EXPECT_THAT(watched_->Warnings(), IsEmpty());
}

TEST_F(RevocationRecordTest, RestartWithAnEarlierListOrNone_ForgetsNothing) {
  PutList(newer_);
  ASSERT_OK(Watch());
  PutList(earlier_);
  ASSERT_OK(Watch());
  EXPECT_TRUE(watched_->Current()->revoked->Contains(serial_));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("is older than the last one")));
  EXPECT_THAT(watched_->Warnings(), ElementsAre(HasSubstr("is older than the last one")));
  std::filesystem::remove(Path("a/revoked.crl"));
  ASSERT_OK(Watch());
  EXPECT_TRUE(watched_->Current()->revoked->Contains(serial_));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("revoked.crl' was removed; put it back; the list")));
  PutList("junk");
  ASSERT_OK(Watch());
  EXPECT_TRUE(watched_->Current()->revoked->Contains(serial_));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("holds no revocation list in PEM")));
}

// The rest of the folder is read all the same, and whoever waits for a new certificate gets it.
TEST_F(RevocationRecordTest, RefusedList_HoldsNothingElseUp) {
  PutList(newer_);
  ASSERT_OK(Watch());
  PutList(earlier_);
  {
    ASSERT_OK_AND_ASSIGN(const auto authority, Open());
    ASSERT_OK(authority->Renew(7300));
  }
  ASSERT_OK(WriteFileAtomically(fs_, Path("a/authority.crt"), ContentOf(Path("ca/authority.crt"))));
  EXPECT_TRUE(RefusesGone());
  EXPECT_EQ(DaysLeft(watched_->Look()->authority.validity.until, now()), 7300);
  // Nothing is read anew at each look, so that connections stay.
  EXPECT_EQ(watched_->Look(), watched_->Look());
}

TEST_F(RevocationRecordTest, ListOfAnotherKey_IsRefused) {
  PutList(newer_);
  ASSERT_OK(Watch());
  ASSERT_OK(Init("another"));
  PutList(ContentOf(Path("another/revoked.crl")));
  EXPECT_TRUE(RefusesGone());
  EXPECT_THAT(told_, ElementsAre(AllOf(HasSubstr("is not signed by the authority"), HasSubstr("stays in force"))));
  ASSERT_OK(Watch());
  EXPECT_TRUE(watched_->Current()->revoked->Contains(serial_));
  // And without any earlier one nothing starts.
  EXPECT_THAT(Load("a"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not signed by")));
}

TEST_F(RevocationRecordTest, SameNumberWithOtherContent_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const Certificate authority, ReadCertificate(ContentOf(Path("ca/authority.crt")), "a"));
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, ReadKey(ContentOf(Path("ca/authority.key")), "k"));
  RevocationRecord record(fs_, "");
  ASSERT_OK_AND_ASSIGN(const std::string one,
                       SignRevocationList({{serial_, {.at = now()}}}, now(), 7, authority, key.get()));
  ASSERT_OK_AND_ASSIGN(const std::string other, SignRevocationList({}, now(), 7, authority, key.get()));
  ASSERT_OK(record.Take(one, "l", authority));
  EXPECT_EQ(record.fault(), "");
  ASSERT_OK_AND_ASSIGN(const auto taken, record.Take(other, "l", authority));
  EXPECT_TRUE(taken->Contains(serial_));
  EXPECT_THAT(record.fault(), HasSubstr("has the number of the last one, 7, and a different content"));
  ASSERT_OK(record.Take(one, "l", authority));
  EXPECT_EQ(record.fault(), "");
}

TEST_F(RevocationRecordTest, ListPastItsDate_WarnsAndStays) {
  ASSERT_OK(Init("short", 10));
  ASSERT_OK(Issue("client/b", "b", {}, 10, "short"));
  // The authority lasts on with its old list: as it is after a renewal that did not bring the list along.
  ASSERT_OK_AND_ASSIGN(const auto list, ReadRevocationList(ContentOf(Path("b/revoked.crl")), "l",
                                                           *ReadCertificate(ContentOf(Path("b/authority.crt")), "a")));
  EXPECT_EQ(DaysLeft(list.next_update, now()), 10);
  NodeIdentity identity;
  identity.revoked = list;
  EXPECT_EQ(ListExpiryWarning(identity, list.next_update), "");
  EXPECT_THAT(ListExpiryWarning(identity, list.next_update + 1),
              HasSubstr("it stays in force, but nodes revoked since"));
  RevocationRecord record(fs_, "");
  PassDays(1000);
  ASSERT_OK_AND_ASSIGN(const auto taken, record.Take(ContentOf(Path("b/revoked.crl")), "l",
                                                     *ReadCertificate(ContentOf(Path("b/authority.crt")), "a")));
  EXPECT_TRUE(taken.has_value());
}

TEST_F(RevocationRecordTest, PlaceThatCannotBeWritten_IsSaidAndTheListCounts) {
  PutList(newer_);
  Write("file", "no folder");
  ASSERT_OK_AND_ASSIGN(watched_, WatchedIdentity::Open(fs_, clock_, Path("a"), {.lists_beside = Path("file/x")}));
  EXPECT_TRUE(watched_->Current()->revoked->Contains(serial_));
  EXPECT_THAT(watched_->Warnings(), ElementsAre(HasSubstr("is not kept, so that a restart would take an earlier one")));
}

// A record never makes the folder of a mistyped --db, which the command refuses afterwards.
TEST_F(RevocationRecordTest, FolderThatIsMissing_StaysMissing) {
  PutList(newer_);
  ASSERT_OK_AND_ASSIGN(watched_, WatchedIdentity::Open(fs_, clock_, Path("a"), {.lists_beside = Path("mistyped/x")}));
  EXPECT_TRUE(watched_->Current()->revoked->Contains(serial_));
  EXPECT_FALSE(std::filesystem::exists(Path("mistyped")));
}

// Two processes of one history: the one that started with the earlier list does not put it over the newer one.
TEST_F(RevocationRecordTest, NewerListOfAnotherProcess_Stays) {
  ASSERT_OK_AND_ASSIGN(const Certificate authority, ReadCertificate(ContentOf(Path("ca/authority.crt")), "a"));
  RevocationRecord first(fs_, Path("h")), second(fs_, Path("h"));
  ASSERT_OK(first.Take(std::nullopt, "l", authority));
  ASSERT_OK(second.Take(newer_, "l", authority));
  ASSERT_OK(first.Take(earlier_, "l", authority));
  RevocationRecord third(fs_, Path("h"));
  ASSERT_OK_AND_ASSIGN(const auto kept, third.Take(std::nullopt, "l", authority));
  EXPECT_TRUE(kept->Contains(serial_));
}

// The clock of the authority's machine may jump, and its list may be lost: what it signs next is newer all the same.
TEST_F(RevocationRecordTest, ClockOfTheAuthorityThatJumps_MakesNoListOlder) {
  PutList(newer_);
  ASSERT_OK(Watch());
  clock_.Advance(int64_t{400} * kSecondsPerDay * 1000);
  ASSERT_OK(Issue("client/later", "later"));
  {
    ASSERT_OK_AND_ASSIGN(const auto authority, Open());
    ASSERT_OK(authority->RevokeName(Name("client/later"), RevocationReason::kCessation));
    PutList(authority->revocation_list());
  }
  EXPECT_TRUE(RefusesGone());
  clock_.Advance(int64_t{-400} * kSecondsPerDay * 1000);
  for (const bool lost : {false, true}) {
    const std::string name = lost ? "client/c" : "client/b";
    if (lost) {
      ASSERT_OK(fs_.Remove(Path("ca/revoked.crl")));
    }
    ASSERT_OK_AND_ASSIGN(const IndexRow row, Issue(name, lost ? "c" : "b"));
    ASSERT_OK_AND_ASSIGN(const auto authority, Open());
    ASSERT_OK(authority->RevokeName(Name(name), RevocationReason::kCessation));
    PutList(authority->revocation_list());
    EXPECT_TRUE(RefusesGone());
    EXPECT_TRUE(watched_->Look()->revoked->Contains(row.serial)) << lost;
  }
  EXPECT_THAT(watched_->Warnings(), IsEmpty());
}

}  // namespace
}  // namespace rivulet::testing

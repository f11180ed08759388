// A malicious coordinator. An honest client detects each lie, and its refusal names it.
#include "certificates/signature.h"
#include "federated/secure/announcement.h"
#include "federated/secure/messages.h"
#include "tests/federated/secure/cohort_harness.h"

namespace rivulet::secure {
namespace {

using absl::StatusCode;
using testing::CohortOptions;
using ::testing::HasSubstr;
using testing::HolderOf;
using testing::SharedAuthority;
using testing::StatusIs;
using testing::TestAuthority;
using testing::TestCohort;

constexpr size_t kVictim = 2;

class LyingCoordinator : public ::testing::Test {
 protected:
  LyingCoordinator() { Begin({}); }
  void Begin(CohortOptions options) {
    options.members = 7;
    options.words = 3;
    cohort_ = std::make_unique<TestCohort>(options);
  }
  void Until(int step) { ASSERT_OK(cohort_->RunUntil(step)); }
  // What the victim says to its cohort, changed.
  template <typename Change>
  Status ToldCohort(Change change) {
    const auto changed = [&](std::string input) {
      CohortMessage message = ParseSecureCohort(input).value();
      change(message);
      return BytesOf(message);
    };
    return cohort_->AnswerOf(kVictim, changed).status();
  }
  auto Refused(const std::string& sentence) const {
    return StatusIs(StatusCode::kFailedPrecondition, HasSubstr(sentence));
  }
  // The number of a neighbour in the victim's list, which leaves the victim out.
  static size_t NeighbourAt(size_t member) { return member < kVictim ? member : member - 1; }

  // A member's keys with a signature and certificate by `holder`.
  Voucher VouchedBy(const TestAuthority::Holder& holder, const Member& member) const {
    return {DerOf(holder.certificate),
            SignBytes(holder.key.get(), KeysToSign(SessionContext(cohort_->Session()), member.channel, member.mask))
                .value()};
  }
  std::unique_ptr<TestCohort> cohort_;
};

// Step 1.

TEST_F(LyingCoordinator, CohortBelowThePlansMinimum) {
  CohortOptions options;
  options.settings.min_cohort = 7;
  Begin(options);
  Until(1);
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { message.members.pop_back(); }),
              Refused("the cohort has 6 members, and the signed plan asks for 7"));
}

TEST_F(LyingCoordinator, MemberTwice) {
  Until(1);
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { message.members[4].name = message.members[5].name; }),
              Refused("member 'client-00005' is listed twice"));
}

TEST_F(LyingCoordinator, MembersOutOfOrder) {
  Until(1);
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { std::swap(message.members[4], message.members[5]); }),
              Refused("out of the order of names"));
}

TEST_F(LyingCoordinator, KeyTwice) {
  Until(1);
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { message.members[4].mask = message.members[5].channel; }),
              Refused("members 'client-00004' and 'client-00005' have one key twice"));
}

TEST_F(LyingCoordinator, OtherKeysOfTheClientItself) {
  Until(1);
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { message.members[kVictim].mask[0] ^= 1; }),
              Refused("lists other keys of this client, 'client-00002'"));
}

TEST_F(LyingCoordinator, CohortWithoutTheClient) {
  Until(1);
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { message.members[kVictim].name = "client-00002b"; }),
              Refused("does not list this client, 'client-00002'"));
}

// The keys are signed for another model, as the coordinator gave its neighbours another than this client.
TEST_F(LyingCoordinator, AnotherModelOrPlanOfOneClient) {
  for (const bool model : {true, false}) {
    Begin({});
    ClientSetup setup = cohort_->SetupOf(cohort_->name(kVictim));
    (model ? setup.session.model : setup.session.plan) = Sha256Of("another");
    cohort_->ReplaceClient(kVictim, setup);
    // The coordinator refuses its keys, if it is honest; this one does not, and shows them to all.
    ASSERT_OK_AND_ASSIGN(const std::string announced, cohort_->AnswerOf(kVictim));
    EXPECT_THAT(cohort_->Deliver(kVictim, announced), Refused("'client-00002' did not sign its keys for this attempt"));
    for (size_t client = 0; client < 7; ++client) {
      if (client == kVictim) continue;
      ASSERT_OK_AND_ASSIGN(const std::string answer, cohort_->AnswerOf(client));
      ASSERT_OK(cohort_->Deliver(client, answer));
    }
    ASSERT_OK(cohort_->server().Close());
    const KeysMessage own = ParseSecureKeys(announced).value();
    const auto with_victim = [&](std::string input) {
      CohortMessage message = ParseSecureCohort(input).value();
      message.members.insert(message.members.begin() + kVictim, Member{cohort_->name(kVictim), own.channel, own.mask});
      message.neighbours.insert(message.neighbours.begin() + kVictim - 1, own.voucher);
      return BytesOf(message);
    };
    EXPECT_THAT(cohort_->AnswerOf(0, with_victim).status(),
                Refused("'client-00002' did not sign its keys for this attempt"));
  }
}

TEST_F(LyingCoordinator, InventedMember) {
  Until(1);
  const TestAuthority other("Invented study");
  const TestAuthority::Holder invented = other.Issue("client-00004");
  EXPECT_THAT(ToldCohort([&](CohortMessage& message) {
                message.neighbours[NeighbourAt(4)] = VouchedBy(invented, message.members[4]);
              }),
              Refused("is not signed by the authority"));
}

TEST_F(LyingCoordinator, MemberWithAnothersCertificate) {
  Until(1);
  EXPECT_THAT(ToldCohort([&](CohortMessage& message) {
                message.neighbours[NeighbourAt(4)] = VouchedBy(HolderOf("client-00001"), message.members[4]);
              }),
              Refused("member 'client-00004' shows the certificate of 'client/client-00001'"));
}

TEST_F(LyingCoordinator, MemberWithoutCertificate) {
  Until(1);
  EXPECT_THAT(
      ToldCohort([&](CohortMessage& message) { message.neighbours[NeighbourAt(4)].certificate = "no certificate"; }),
      Refused("member 'client-00004' shows 14 bytes that are no certificate"));
}

TEST_F(LyingCoordinator, ReplacedKeys) {
  Until(1);
  EXPECT_THAT(ToldCohort([&](CohortMessage& message) { message.members[4].channel[7] ^= 1; }),
              Refused("member 'client-00004' did not sign its keys"));
}

TEST_F(LyingCoordinator, RevokedMember) {
  Until(1);
  const std::string list = SharedAuthority().RevocationListPem({HolderOf("client-00004").certificate.serial}, 5);
  EXPECT_THAT(ToldCohort([&](CohortMessage& message) { message.revocation_list = list; }), Refused("was revoked"));
}

TEST_F(LyingCoordinator, OlderRevocationList) {
  const std::string seen_pem = SharedAuthority().RevocationListPem({HolderOf("client-00004").certificate.serial}, 5);
  const RevocationList seen = ReadRevocationList(seen_pem, "the list", SharedAuthority().certificate()).value();
  for (const bool old_list : {true, false}) {
    Begin({});
    ClientSetup setup = cohort_->SetupOf(cohort_->name(kVictim));
    setup.trust.revoked = &seen;
    cohort_->ReplaceClient(kVictim, setup);
    Until(1);
    if (old_list) {
      EXPECT_THAT(ToldCohort([&](CohortMessage& message) {
                    message.revocation_list = SharedAuthority().RevocationListPem({}, 4);
                  }),
                  Refused("has the number 4, and this client has seen 5"));
    } else {  // none, so the last one seen counts
      EXPECT_THAT(ToldCohort([&](CohortMessage&) {}), Refused("was revoked"));
    }
  }
}

TEST_F(LyingCoordinator, RevocationListOfAnotherAuthority) {
  Until(1);
  const TestAuthority other("Heart study");
  EXPECT_THAT(ToldCohort([&](CohortMessage& message) { message.revocation_list = other.RevocationListPem({}, 9); }),
              StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(LyingCoordinator, FewerNeighbours) {
  Until(1);
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { message.neighbours.pop_back(); }),
              Refused("came with 5 neighbours in place of 6"));
}

// A client that colludes signs a key by which everybody knows what it agrees on.
TEST_F(LyingCoordinator, KeyOfLowOrder) {
  for (const bool mask : {true, false}) {
    Begin({});
    Until(1);
    EXPECT_THAT(ToldCohort([&](CohortMessage& message) {
                  (mask ? message.members[4].mask : message.members[4].channel) = PublicKey{1};
                  message.neighbours[NeighbourAt(4)] = VouchedBy(HolderOf("client-00004"), message.members[4]);
                }),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("member 'client-00004': a public key of X25519 has a low order")));
  }
}

TEST_F(LyingCoordinator, CohortOfAnOldAttempt) {
  Until(1);
  const std::string old = cohort_->server().InputFor(cohort_->name(kVictim)).value();
  Begin({.attempt = 2});
  Until(1);
  EXPECT_THAT(cohort_->AnswerOf(kVictim, [&](const std::string&) { return old; }).status(),
              Refused("lists other keys of this client"));
}

// Step 2.

TEST_F(LyingCoordinator, SwappedCiphertexts) {
  Until(2);
  const auto swapped = [](std::string input) {
    SealedSharesMessage message = ParseSealedShares(input, 6).value();
    message.sealed = message.sealed.substr(kSealedBytes, kSealedBytes) + message.sealed.substr(0, kSealedBytes) +
                     message.sealed.substr(2 * kSealedBytes);
    return BytesOf(message);
  };
  EXPECT_THAT(cohort_->AnswerOf(kVictim, swapped).status(),
              Refused("the shares of member 'client-00000' for this client: a sealed message does not open"));
}

TEST_F(LyingCoordinator, CiphertextForAnotherClient) {
  Until(2);
  const std::string others = cohort_->server().InputFor(cohort_->name(5)).value();
  EXPECT_THAT(cohort_->AnswerOf(kVictim, [&](const std::string&) { return others; }).status(),
              Refused("does not open"));
}

TEST_F(LyingCoordinator, FewerSharersThanTheThreshold) {
  Until(2);
  const auto fewer = [](std::string input) {
    SealedSharesMessage message = ParseSealedShares(input, 6).value();
    message.senders = {true, true, true, false, false, false};
    message.sealed.resize(3 * kSealedBytes);
    return BytesOf(message);
  };
  EXPECT_THAT(cohort_->AnswerOf(kVictim, fewer).status(),
              Refused("4 holders of this client's secrets shared theirs, and 5 are needed"));
}

// Step 3.

std::string SurvivorsWithout(const std::set<size_t>& missing) {
  std::vector<bool> survivors(7, true);
  for (const size_t member : missing) survivors[member] = false;
  return SurvivorsBytes(survivors);
}

TEST_F(LyingCoordinator, SurvivorsWithoutTheClient) {
  Until(3);
  EXPECT_THAT(cohort_->AnswerOf(kVictim, [](const std::string&) { return SurvivorsWithout({kVictim}); }).status(),
              Refused("the set of survivors is without it"));
}

TEST_F(LyingCoordinator, FewerSurvivorsThanThePlanAsksFor) {
  CohortOptions options;
  options.settings.min_survivors = 6;
  Begin(options);
  Until(3);
  EXPECT_THAT(cohort_->AnswerOf(kVictim,
                                [](const std::string&) {
                                  return SurvivorsWithout({0, 1});
                                })
                  .status(),
              Refused("5 clients survive, and the signed plan asks for 6 or more"));
}

TEST_F(LyingCoordinator, SurvivorThatSharedNothing) {
  ASSERT_OK(cohort_->RunUntil(3, {{4, 1}}));
  EXPECT_THAT(cohort_->AnswerOf(kVictim, [](const std::string&) { return SurvivorsWithout({}); }).status(),
              Refused("member 'client-00004' is among the survivors and shared no secrets with this client"));
}

TEST_F(LyingCoordinator, ASecondSetOfSurvivors) {
  Until(3);
  ASSERT_OK(cohort_->AnswerOf(kVictim).status());
  EXPECT_THAT(cohort_->AnswerOf(kVictim, [](const std::string&) { return SurvivorsWithout({4}); }).status(),
              Refused("step 3 of this attempt was answered before"));
}

// Step 4.

// One half of the clients signs one set and the other half another.
TEST_F(LyingCoordinator, TwoSetsOfSurvivors) {
  Until(3);
  AgreementsMessage message{.signers = std::vector<bool>(7, true), .signatures = {}};
  for (size_t client = 0; client < 7; ++client) {
    const std::string told = client < 4 ? SurvivorsWithout({4}) : SurvivorsWithout({0});
    ASSERT_OK_AND_ASSIGN(const std::string answer, cohort_->client(client).Answer(3, told));
    message.signatures.push_back(ParseAgreement(answer).value());
  }
  // All signatures, some of which are over the other set; client 4 is not in the victim's.
  message.signers[4] = false;
  message.signatures.erase(message.signatures.begin() + 4);
  EXPECT_THAT(cohort_->client(1).Answer(4, BytesOf(message)),
              Refused("member 'client-00005' did not sign the set of survivors that this client signed"));
  // Those alone that are over the client's own set.
  message.signers = {true, true, true, true, false, false, false};
  message.signatures.resize(4);
  EXPECT_THAT(cohort_->client(kVictim).Answer(4, BytesOf(message)),
              Refused("4 holders of this client's secrets signed its set of survivors, and 5 are needed"));
}

TEST_F(LyingCoordinator, AThresholdOfItsOwn) {
  Until(4);
  const auto fewer = [](std::string input) {
    AgreementsMessage message = ParseAgreements(input, 7).value();
    message.signers = {true, true, true, true, false, false, false};
    message.signatures.resize(4);
    return BytesOf(message);
  };
  EXPECT_THAT(cohort_->AnswerOf(kVictim, fewer).status(), Refused("and 5 are needed"));
}

TEST_F(LyingCoordinator, OneSignatureForTwoMembers) {
  Until(4);
  const auto doubled = [](std::string input) {
    AgreementsMessage message = ParseAgreements(input, 7).value();
    message.signatures[1] = message.signatures[0];
    return BytesOf(message);
  };
  EXPECT_THAT(cohort_->AnswerOf(kVictim, doubled).status(), Refused("member 'client-00001' did not sign"));
}

TEST_F(LyingCoordinator, SignerThatDidNotSurvive) {
  ASSERT_OK(cohort_->RunUntil(4, {{4, 2}}));
  const auto with_dropped = [](std::string input) {
    AgreementsMessage message = ParseAgreements(input, 7).value();
    message.signers = {true, true, true, false, true, true, false};
    return BytesOf(message);
  };
  EXPECT_THAT(cohort_->AnswerOf(kVictim, with_dropped).status(),
              Refused("the coordinator claims that member 'client-00004' signed a set of survivors without it"));
}

TEST_F(LyingCoordinator, BothSharesOfOneClient) {
  Until(4);
  ASSERT_OK(cohort_->AnswerOf(kVictim).status());
  EXPECT_THAT(cohort_->AnswerOf(kVictim).status(), Refused("step 4 of this attempt was answered before"));
}

// At any step.

TEST_F(LyingCoordinator, AStepOutOfOrder) {
  EXPECT_THAT(cohort_->client(kVictim).Answer(3, ""), Refused("step 3 was requested before step 0"));
  Until(2);
  EXPECT_THAT(cohort_->client(kVictim).Answer(1, ""), Refused("step 1 of this attempt was answered before"));
  EXPECT_THAT(cohort_->client(kVictim).Answer(5, ""), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(LyingCoordinator, AfterARefusalNothingIsAnswered) {
  Until(1);
  const std::string honest = cohort_->server().InputFor(cohort_->name(kVictim)).value();
  EXPECT_THAT(ToldCohort([](CohortMessage& message) { message.neighbours.pop_back(); }),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(cohort_->AnswerTo(kVictim, honest).status(), Refused("this attempt was refused before"));
}

TEST_F(LyingCoordinator, MessagesOfAnotherForm) {
  for (const int step : {1, 2, 3, 4}) {
    Begin({});
    Until(step);
    EXPECT_THAT(cohort_->AnswerOf(kVictim, [](const std::string&) { return std::string("\xFFnonsense"); }).status(),
                StatusIs(StatusCode::kInvalidArgument))
        << step;
  }
}

TEST(SecurePolicy, APlanThatIsWeakerIsRefusedByItsKey) {
  TestCohort cohort({});
  const auto refusal = [&](void (*ask)(SecurePolicy&)) {
    ClientSetup setup = cohort.SetupOf("client-00000");
    setup.settings = {.min_cohort = 10, .min_survivors = 8, .max_colluding = 1, .least_sum = 6};
    ask(setup.policy);
    return testing::ErrorOf(FindSecureProtocol("secagg_plus").value()->make_client(setup).status());
  };
  EXPECT_EQ(refusal([](SecurePolicy&) {}), "no error");
  EXPECT_EQ(refusal([](SecurePolicy& policy) { policy.min_cohort = 11; }),
            "the plan's privacy.min_cohort is 10 and this site's policy asks for 11 or more");
  EXPECT_THAT(refusal([](SecurePolicy& policy) { policy.min_survivors = 9; }), HasSubstr("privacy.min_survivors is 8"));
  EXPECT_THAT(refusal([](SecurePolicy& policy) { policy.max_colluding = 2; }), HasSubstr("privacy.max_colluding is 1"));
  EXPECT_THAT(refusal([](SecurePolicy& policy) { policy.least_sum = 7; }), HasSubstr("privacy.least_sum is 6"));
}

// A graph that protects too small a sum is refused by each client, whatever the coordinator makes of it.
TEST(SecurePolicy, ACohortWhoseProtectedSumIsTooSmallIsRefused) {
  CohortOptions options{.members = 7};
  options.settings.least_sum = 6;
  TestCohort cohort(options);
  EXPECT_THAT(cohort.RunUntil(1), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("the plan asks for 6")));
}

}  // namespace
}  // namespace rivulet::secure

// Malicious clients: the coordinator refuses only them, and a wrong share is harmless or attributed.
#include "certificates/signature.h"
#include "federated/secure/announcement.h"
#include "federated/secure/messages.h"
#include "federated/secure/secret_recovery.h"
#include "tests/federated/secure/cohort_harness.h"

namespace rivulet::secure {
namespace {

using absl::StatusCode;
using testing::CohortOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HolderOf;
using ::testing::IsEmpty;
using testing::SharedAuthority;
using testing::StatusIs;
using testing::TestAuthority;
using testing::TestCohort;

constexpr size_t kLiar = 3;

CohortOptions Seven() { return {.members = 7, .words = 3}; }

std::string ChangedKeys(const std::string& answer, const std::function<void(KeysMessage&)>& change) {
  KeysMessage message = ParseSecureKeys(answer).value();
  change(message);
  return BytesOf(message);
}

TEST(LyingClient, KeysThatItMayNotAnnounce_AreRefused) {
  TestCohort cohort(Seven());
  ASSERT_OK_AND_ASSIGN(const std::string honest, cohort.AnswerOf(kLiar));
  ASSERT_OK_AND_ASSIGN(const std::string other, cohort.AnswerOf(0));
  const auto told = [&](const std::function<void(KeysMessage&)>& change) {
    return cohort.Deliver(kLiar, ChangedKeys(honest, change));
  };
  const auto vouched = [&](KeysMessage& message, const TestAuthority::Holder& holder) {
    message.voucher = {
        DerOf(holder.certificate),
        SignBytes(holder.key.get(), KeysToSign(SessionContext(cohort.Session()), message.channel, message.mask))
            .value()};
  };
  EXPECT_THAT(told([](KeysMessage& message) { message.mask[3] ^= 1; }),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("did not sign its keys")));
  EXPECT_THAT(told([&](KeysMessage& message) { vouched(message, HolderOf("client-00001")); }),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("shows the certificate of 'client/client-00001'")));
  const TestAuthority::Holder tier = SharedAuthority().Issue("client-00003", Role::kOperator);
  EXPECT_THAT(told([&](KeysMessage& message) { vouched(message, tier); }),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("operator/client-00003")));
  EXPECT_THAT(told([&](KeysMessage& message) {
                message.channel = PublicKey{};
                vouched(message, HolderOf("client-00003"));
              }),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("low order")));
  ASSERT_OK(cohort.Deliver(0, other));
  EXPECT_THAT(told([&](KeysMessage& message) {
                message.channel = ParseSecureKeys(other).value().mask;
                vouched(message, HolderOf("client-00003"));
              }),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("'client-00003' announced a key that occurs twice")));
  EXPECT_OK(cohort.Deliver(kLiar, honest));
  EXPECT_THAT(cohort.Deliver(kLiar, honest),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("a second process of that name is refused")));
}

TEST(LyingClient, AnswersOutOfPlace_AreRefused) {
  TestCohort cohort(Seven());
  ASSERT_OK(cohort.RunUntil(1, {{6, 0}}));
  EXPECT_THAT(cohort.Deliver(6, "late"), StatusIs(StatusCode::kNotFound, HasSubstr("is not of this cohort")));
  EXPECT_THAT(cohort.server().InputFor("stranger"), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(cohort.Deliver(kLiar, "\xFF"), StatusIs(StatusCode::kInvalidArgument));
  ASSERT_OK(cohort.RunStep({5, 6}));
  EXPECT_THAT(cohort.Deliver(5, ""),
              StatusIs(StatusCode::kNotFound, HasSubstr("'client-00005' dropped out before step 2")));
  ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerOf(kLiar));
  ASSERT_OK(cohort.Deliver(kLiar, answer));
  EXPECT_THAT(cohort.Deliver(kLiar, answer), StatusIs(StatusCode::kAlreadyExists, HasSubstr("has answered step 2")));
}

TEST(LyingClient, ASignatureOverAnotherSet_IsRefused) {
  TestCohort cohort(Seven());
  ASSERT_OK(cohort.RunUntil(3));
  std::vector<bool> survivors(7, true);
  survivors[0] = false;
  ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerTo(kLiar, SurvivorsBytes(survivors)));
  EXPECT_THAT(cohort.Deliver(kLiar, answer),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("did not sign the set")));
}

// A reveal with the share of the member at `place` changed.
std::string Corrupted(const std::string& answer, size_t place, size_t holders = 7) {
  std::string shares = ParseReveal(answer, holders).value();
  shares[place * 32 + 5] = static_cast<char>(shares[place * 32 + 5] ^ 0x10);
  return RevealBytes(shares);
}

// Each share of each holder in turn; one client dropped out after sharing, so that shares of both kinds are among them.
TEST(LyingClient, EachCorruptedShare_IsFoundOrWasNotNeeded) {
  constexpr size_t kDropped = 5;
  for (size_t holder = 0; holder < 7; ++holder) {
    if (holder == kDropped) continue;
    for (size_t owner = 0; owner < 7; ++owner) {
      SCOPED_TRACE(fmt::format("the share of {} that {} holds", owner, holder));
      TestCohort cohort(Seven());
      ASSERT_OK(cohort.RunUntil(4, {{kDropped, 2}}));
      for (size_t client = 0; client < 7; ++client) {
        if (client == kDropped) continue;
        ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerOf(client));
        ASSERT_OK(cohort.Deliver(client, client == holder ? Corrupted(answer, owner) : answer));
      }
      ASSERT_OK(cohort.server().Close());
      ASSERT_OK(cohort.server().Unmask(cohort.sum()));
      EXPECT_EQ(cohort.sum(), cohort.PlainSum());
      const std::vector<BadShare> bad = cohort.server().BadShares();
      const bool among_the_first_five = holder < 5;
      ASSERT_EQ(bad.size(), among_the_first_five ? 1u : 0u);
      if (!among_the_first_five) continue;
      EXPECT_EQ(bad[0].owner, cohort.name(owner));
      EXPECT_EQ(bad[0].holder, cohort.name(holder));
    }
  }
}

// With two drop-outs no share is to spare.
TEST(LyingClient, ACorruptedShareWithoutSpareOnes_AbandonsTheAttempt) {
  TestCohort cohort(Seven());
  ASSERT_OK(cohort.RunUntil(4, {{5, 2}, {6, 2}}));
  for (size_t client = 0; client < 5; ++client) {
    ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerOf(client));
    ASSERT_OK(cohort.Deliver(client, client == kLiar ? Corrupted(answer, 1) : answer));
  }
  ASSERT_OK(cohort.server().Close());
  EXPECT_THAT(
      cohort.server().Unmask(cohort.sum()),
      StatusIs(StatusCode::kFailedPrecondition,
               HasSubstr("the shares of 'client-00001' give no secret that matches the announcement; the attempt is "
                         "abandoned. The client with the wrong answer is unknown.")));
}

// A holder that is wrong about all, and an owner that dealt wrong shares.
TEST(SecretRecovery, NamesWhoIsInMoreBadPairs) {
  const int threshold = 3;
  std::vector<uint32_t> holders = {1, 2, 3, 4, 5};
  const auto recover = [&](SecretRecovery& recovery, uint32_t owner, const std::set<size_t>& wrong) {
    const SecretBytes secret = SecretBytes::Random(kSecretBytes).value();
    SecretBytes shares = ShareSecret(secret.span().first<kSecretBytes>(), threshold, holders).value();
    std::vector<HeldShare> held;
    for (size_t i = 0; i < holders.size(); ++i) {
      if (wrong.contains(i)) shares.data()[i * kShareBytes] ^= static_cast<uint8_t>(1 << i);
      held.push_back({holders[i], shares.part(i * kShareBytes, kShareBytes)});
    }
    const auto recovered = recovery.Recover(
        owner, held, [&](std::span<const uint8_t, kSecretBytes> found) { return EqualSecrets(found, secret.span()); });
    return recovered.has_value();
  };
  SecretRecovery by_holder(threshold);
  for (uint32_t owner = 0; owner < 3; ++owner) EXPECT_TRUE(recover(by_holder, owner, {1}));
  std::vector<std::pair<uint32_t, uint32_t>> unclear;
  EXPECT_THAT(by_holder.Blamed(&unclear), ElementsAre(1));
  EXPECT_THAT(unclear, IsEmpty());

  SecretRecovery by_owner(threshold);
  EXPECT_TRUE(recover(by_owner, 4, {0, 2}));
  EXPECT_THAT(by_owner.Blamed(&unclear), ElementsAre(4));
  EXPECT_THAT(unclear, IsEmpty());

  SecretRecovery either(threshold);
  EXPECT_TRUE(recover(either, 4, {0}));
  EXPECT_THAT(either.Blamed(&unclear), IsEmpty());
  EXPECT_THAT(unclear, ElementsAre(std::pair(4u, 0u)));

  SecretRecovery lost(threshold);
  EXPECT_FALSE(recover(lost, 2, {0, 1, 2, 3}));
  EXPECT_THAT(lost.lost(), ElementsAre(2));
}

}  // namespace
}  // namespace rivulet::secure

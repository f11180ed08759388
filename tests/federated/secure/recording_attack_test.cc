// Everything that a lying coordinator received and knows, and a search of it for a sum that is too small. It finds none
// while clients refuse; and it finds one when any single refusal is taken out, by the lie that this refusal meets.
//
// Two refusals are not here, as either is enough: of a set of survivors without the client itself, and of a signer that
// is outside the set. Repeated keys, keys of low order and messages that do not open gain the coordinator nothing that
// a colluding client could not give it; lying_coordinator_test.cc has them.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "certificates/signature.h"
#include "federated/secure/announcement.h"
#include "federated/secure/cohort.h"
#include "federated/secure/graph.h"
#include "federated/secure/key_agreement.h"
#include "federated/secure/key_derivation.h"
#include "federated/secure/keystream.h"
#include "federated/secure/messages.h"
#include "federated/secure/sealing.h"
#include "federated/secure/secret_recovery.h"
#include "federated/secure/share_decoding.h"
#include "tests/federated/secure/test_authority.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::secure {

class WithoutRefusal {
 public:
  static Refusals Of(Refusal refusal) {
    Refusals refusals;
    refusals.out_ = refusal;
    return refusals;
  }
};

namespace {

using testing::HolderOf;
using testing::kHarnessNow;
using testing::SharedAuthority;
using testing::TestAuthority;

constexpr size_t kWords = 5;
constexpr size_t kIsolated = 0;
// Of a complete graph of ten, seven shares give a secret; without colluding clients no smaller sum is to be read.
constexpr size_t kMembers = 10, kLeastSum = 7;

using Words = std::vector<std::byte>;
using Secret = std::array<uint8_t, kSecretBytes>;
using Set = std::vector<bool>;

void AddTo(Words& sum, const Words& more) {
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t one = 0, other = 0;
    std::memcpy(&one, &sum[i * 8], 8);
    std::memcpy(&other, &more[i * 8], 8);
    one += other;
    std::memcpy(&sum[i * 8], &one, 8);
  }
}

Secret SecretOf(std::span<const uint8_t> bytes) {
  Secret secret{};
  std::ranges::copy(bytes.first(kSecretBytes), secret.begin());
  return secret;
}

// A member of the cohort that the clients are shown: a client, or a name behind which the coordinator itself is.
struct Party {
  std::string name;
  std::unique_ptr<SecureClient> client;  // null: the coordinator
  Words words;                           // what no attack may find out
  KeysMessage keys;
  // Of the coordinator's own.
  std::optional<AgreementKey> channel, mask;
  EVP_PKEY* signs = nullptr;
  // A client's messages to the coordinator, and the coordinator's to it.
  std::optional<SharesMessage> shares;
  Words masked;
  Set senders;                         // by neighbour
  std::map<Set, std::string> reveals;  // by the set of survivors that it was told last
  std::map<Set, std::string> agreements;
  Status refusal;  // the first
};

// The lies of one attack; what is left out is as an honest coordinator does it.
struct Lies {
  int clients = kMembers;
  std::function<void(Party&, int number)> puppet = nullptr;  // the members beyond `clients`; null: there are none
  std::function<void(ClientSetup&)> setup = nullptr;
  std::string revocation_list = {};
  bool victim_alone_shared = false;
  // What each client is told of the survivors, by turns: a client answers each turn, if it does.
  std::vector<std::function<Set(size_t client)>> survivors = {};
  // Whom it is told to have signed; null: all that signed its own set.
  std::function<Set(size_t client, const Set& told)> signers = nullptr;
};

Set AllOf(size_t count) { return Set(count, true); }
Set OnlyOf(size_t count, std::initializer_list<size_t> members) {
  Set set(count, false);
  for (const size_t member : members) set[member] = true;
  return set;
}

class Attack {
 public:
  Attack(const Lies& lies, const SecureSettings& settings, Refusal without) : lies_(lies), settings_(settings) {
    const int count = lies.puppet == nullptr ? lies.clients : static_cast<int>(kMembers);
    for (int i = 0; i < count; ++i) {
      Party& party = parties_.emplace_back();
      party.name = fmt::format("client-{:05}", i);
      if (i >= lies.clients) {
        party.channel = AgreementKey::Generate().value();
        party.mask = AgreementKey::Generate().value();
        party.keys.channel = party.channel->public_key();
        party.keys.mask = party.mask->public_key();
        lies.puppet(party, i);
        continue;
      }
      const TestAuthority::Holder& holder = HolderOf(party.name);
      ClientSetup setup{.name = party.name,
                        .session = session_,
                        .settings = settings,
                        .policy = {},
                        .certificate = &holder.certificate,
                        .key = holder.key.get(),
                        .trust = {.authority = &SharedAuthority().certificate(), .now = kHarnessNow},
                        .refusals = WithoutRefusal::Of(without)};
      if (lies.setup) lies.setup(setup);
      party.client = FindSecureProtocol("secagg_plus").value()->make_client(setup).value();
      party.words.resize(kWords * 8);
      for (std::byte& byte : party.words) byte = static_cast<std::byte>(random_());
    }
    Play();
    FindSecrets();
  }

  // The fewest clients, that one among them, whose sum can be told from the recording; 0: none can.
  size_t SmallestSumWith(size_t client) const {
    std::vector<size_t> members = {client};
    Words sum(kWords * 8);
    for (size_t next = 0; next < members.size(); ++next) {
      const size_t member = members[next];
      const Party& party = parties_[member];
      if (party.masked.empty() || !seeds_.contains(member)) return 0;
      AddTo(sum, party.masked);
      Mask(SecretOf(seeds_.at(member)), SelfMaskInfo(context_, Number(member)), MaskSign::kSubtract, sum);
      for (const size_t other : Masked(member)) {
        const std::optional<Secret> agreed = Agreed(member, other);
        if (agreed) {
          Mask(*agreed, PairMaskInfo(context_, Number(std::min(member, other)), Number(std::max(member, other))),
               member < other ? MaskSign::kSubtract : MaskSign::kAdd, sum);
          continue;
        }
        // Only the other's words take this mask away.
        if (parties_[other].client == nullptr || !std::ranges::count(Masked(other), member)) return 0;
        if (!std::ranges::count(members, other)) members.push_back(other);
      }
    }
    Words plain(kWords * 8);
    for (const size_t member : members) AddTo(plain, parties_[member].words);
    EXPECT_EQ(sum, plain) << "what was found is no sum";
    return members.size();
  }
  // Of all clients' smallest sums, the smallest; 0: nothing can be read.
  size_t SmallestSum() const {
    size_t smallest = 0;
    for (size_t client = 0; client < parties_.size(); ++client) {
      const size_t sum = parties_[client].client == nullptr ? 0 : SmallestSumWith(client);
      if (sum > 0 && (smallest == 0 || sum < smallest)) smallest = sum;
    }
    return smallest;
  }
  std::vector<std::string> refusals() const {
    std::vector<std::string> sentences;
    for (const Party& party : parties_)
      if (!party.refusal.ok()) sentences.emplace_back(Message(party.refusal));
    return sentences;
  }

 private:
  static uint32_t Number(size_t member) { return static_cast<uint32_t>(member); }

  void Play() {
    std::vector<Member> members;
    for (Party& party : parties_) {
      if (party.client != nullptr) {
        const StatusOr<std::string> answer = party.client->Answer(0, "");
        ASSERT_OK(answer);
        party.keys = ParseSecureKeys(*answer).value();
      }
      members.push_back({party.name, party.keys.channel, party.keys.mask});
    }
    context_ = CohortContext(SessionContext(session_), members);
    GraphNeeds needs = NeedsOf(settings_, std::ssize(parties_));
    needs.least_sum = 1;
    const StatusOr<GraphShape> shape = ChooseGraph(needs);
    ASSERT_OK(shape);
    graph_ = NeighbourGraph::Create(context_, std::ssize(parties_), *shape).value();
    for (size_t i = 0; i < parties_.size(); ++i) {
      CohortMessage message{.members = members, .neighbours = {}, .revocation_list = lies_.revocation_list};
      for (const uint32_t other : graph_->NeighboursOf(Number(i))) {
        message.neighbours.push_back(parties_[other].keys.voucher);
      }
      if (const auto answer = Ask(i, 1, BytesOf(message)); answer) {
        parties_[i].shares = ParseSecureShares(*answer, graph_->NeighboursOf(Number(i)).size()).value();
      }
    }
    for (size_t i = 0; i < parties_.size(); ++i) GiveShares(i);
    for (const auto& told : lies_.survivors) Turn(told);
  }

  std::optional<std::string> Ask(size_t member, int step, const std::string& input) {
    Party& party = parties_[member];
    if (party.client == nullptr || (step > 1 && !party.shares) || (step > 2 && party.masked.empty())) {
      return std::nullopt;
    }
    StatusOr<std::string> answer = party.client->Answer(step, input);
    if (answer.ok()) return *std::move(answer);
    if (party.refusal.ok()) party.refusal = answer.status();
    return std::nullopt;
  }

  void GiveShares(size_t member) {
    Party& party = parties_[member];
    if (party.client == nullptr || !party.shares) return;
    SealedSharesMessage message;
    const std::vector<uint32_t> neighbours = graph_->NeighboursOf(Number(member));
    for (const uint32_t other : neighbours) {
      const bool shared = parties_[other].client == nullptr || parties_[other].shares.has_value();
      const bool sends = shared && !(lies_.victim_alone_shared && member == kIsolated);
      message.senders.push_back(sends);
      if (sends) message.sealed += Sealed(other, Number(member));
    }
    party.senders = message.senders;
    Words masked = party.words;
    const Status status = party.client->Mask(BytesOf(message), masked);
    if (status.ok()) {
      party.masked = std::move(masked);
    } else if (party.refusal.ok()) {
      party.refusal = status;
    }
  }

  // The coordinator's own shares say nothing.
  std::string Sealed(uint32_t from, uint32_t to) {
    if (parties_[from].client == nullptr) {
      const std::string info = SealInfo(context_, 1, from, to);
      const SecretBytes agreed = parties_[from].channel->Agree(parties_[to].keys.channel).value();
      const SecretBytes key = DeriveKey(agreed.span(), info, kSealKeyBytes).value();
      const std::vector<uint8_t> nothing(2 * kSecretBytes);
      return Seal(key.span().first<kSealKeyBytes>(), info, nothing).value();
    }
    return parties_[from].shares->sealed.substr(PlaceAmong(graph_->NeighboursOf(from), to) * kSealedBytes,
                                                kSealedBytes);
  }

  static size_t PlaceAmong(const std::vector<uint32_t>& members, uint32_t member) {
    return static_cast<size_t>(std::ranges::find(members, member) - members.begin());
  }

  void Turn(const std::function<Set(size_t client)>& told) {
    std::map<size_t, Set> sets;
    for (size_t i = 0; i < parties_.size(); ++i) {
      sets[i] = told(i);
      if (const auto answer = Ask(i, 3, SurvivorsBytes(sets[i])); answer) {
        parties_[i].agreements[sets[i]] = ParseAgreement(*answer).value();
      }
    }
    for (size_t i = 0; i < parties_.size(); ++i) {
      AgreementsMessage message;
      const std::vector<uint32_t> holders = graph_->HoldersOf(Number(i));
      const Set wanted = lies_.signers ? lies_.signers(i, sets[i]) : AllOf(parties_.size());
      for (const uint32_t holder : holders) {
        const std::string signature = Agreement(holder, sets[i]);
        const bool named = wanted[holder] && (lies_.signers != nullptr || !signature.empty());
        message.signers.push_back(named);
        if (named) message.signatures.push_back(signature.empty() ? "none" : signature);
      }
      if (const auto answer = Ask(i, 4, BytesOf(message)); answer) parties_[i].reveals[sets[i]] = *answer;
    }
  }

  std::string Agreement(uint32_t holder, const Set& set) const {
    const Party& party = parties_[holder];
    if (party.client == nullptr && party.signs != nullptr && set[holder]) {
      return SignBytes(party.signs, SurvivorsToSign(context_, SetBytes(set))).value();
    }
    const auto signed_set = party.agreements.find(set);
    return signed_set == party.agreements.end() ? "" : signed_set->second;
  }

  // --- The attack on the recording

  // All shares that were revealed, or sealed for the coordinator itself, and the secrets that they give.
  void FindSecrets() {
    std::map<size_t, std::map<uint32_t, Secret>> of_seeds, of_keys;  // by owner, and by holder's number
    for (size_t i = 0; i < parties_.size(); ++i) {
      const std::vector<uint32_t> holders = graph_->HoldersOf(Number(i));
      for (const auto& [set, reveal] : parties_[i].reveals) {
        std::vector<uint32_t> owners;
        for (const uint32_t holder : holders) {
          const bool own = holder == i;
          const size_t place = PlaceAmong(graph_->NeighboursOf(Number(i)), holder);
          if (own || parties_[i].senders[place]) owners.push_back(holder);
        }
        const std::string shares = ParseReveal(reveal, owners.size()).value();
        for (size_t k = 0; k < owners.size(); ++k) {
          auto& shares_of = set[owners[k]] ? of_seeds : of_keys;
          const auto* const at = reinterpret_cast<const uint8_t*>(shares.data()) + k * kShareBytes;
          shares_of[owners[k]][Number(i) + 1] = SecretOf({at, kShareBytes});
        }
      }
      if (parties_[i].client != nullptr) continue;
      for (const uint32_t other : graph_->NeighboursOf(Number(i))) {
        if (parties_[other].client == nullptr || !parties_[other].shares) continue;
        const std::string info = SealInfo(context_, 1, other, Number(i));
        const SecretBytes agreed = parties_[i].channel->Agree(parties_[other].keys.channel).value();
        const SecretBytes key = DeriveKey(agreed.span(), info, kSealKeyBytes).value();
        const auto opened = Unseal(key.span().first<kSealKeyBytes>(), info, Sealed(other, Number(i)));
        ASSERT_OK(opened);
        of_seeds[other][Number(i) + 1] = SecretOf(opened->span());
        of_keys[other][Number(i) + 1] = SecretOf(opened->span().subspan(kSecretBytes));
      }
    }
    for (size_t i = 0; i < parties_.size(); ++i) {
      const Party& party = parties_[i];
      if (party.client == nullptr || !party.shares) continue;
      Decode(i, of_seeds[i], seeds_, [&](std::span<const uint8_t, kSecretBytes> seed) {
        return std::move(Sha256().Update(std::as_bytes(seed))).Finish() == party.shares->seed_digest;
      });
      Decode(i, of_keys[i], keys_, [&](std::span<const uint8_t, kSecretBytes> key) {
        const auto found = AgreementKey::FromPrivate(key);
        return found.ok() && found->public_key() == party.keys.mask;
      });
    }
  }

  void Decode(size_t owner, const std::map<uint32_t, Secret>& shares, std::map<size_t, Secret>& into,
              const std::function<bool(std::span<const uint8_t, kSecretBytes>)>& fits) const {
    if (std::ssize(shares) < graph_->shape().threshold) return;
    std::vector<HeldShare> held;
    for (const auto& [holder, share] : shares) held.push_back({holder, share});
    if (const auto found = DecodeSecret(held, graph_->shape().threshold, fits); found) {
      into[owner] = SecretOf(found->secret.span());
    }
  }

  // With whom its words have a mask in common.
  std::vector<size_t> Masked(size_t member) const {
    std::vector<size_t> others;
    const std::vector<uint32_t> neighbours = graph_->NeighboursOf(Number(member));
    for (size_t i = 0; i < parties_[member].senders.size(); ++i) {
      if (parties_[member].senders[i]) others.push_back(neighbours[i]);
    }
    return others;
  }

  std::optional<Secret> Agreed(size_t one, size_t other) const {
    for (const auto& [known, peer] : {std::pair(one, other), std::pair(other, one)}) {
      if (parties_[known].mask) return SecretOf(parties_[known].mask->Agree(parties_[peer].keys.mask)->span());
      const auto key = keys_.find(known);
      if (key == keys_.end()) continue;
      return SecretOf(AgreementKey::FromPrivate(key->second)->Agree(parties_[peer].keys.mask)->span());
    }
    return std::nullopt;
  }

  void Mask(const Secret& secret, const std::string& info, MaskSign sign, Words& words) const {
    const SecretBytes key = DeriveKey(secret, info, kCipherKeyBytes).value();
    MaskAdder adder = MaskAdder::Create(words, settings_.word_bits).value();
    ASSERT_OK(adder.Add(key.span().first<kCipherKeyBytes>(), sign));
    ASSERT_OK(adder.Finish());
  }

  const Lies& lies_;
  const SecureSettings settings_;
  const Session session_ = {.run = "heart", .plan = Sha256Of("plan"), .model = Sha256Of("model"), .version = 3};
  std::mt19937_64 random_{11};
  std::vector<Party> parties_;
  Digest context_;
  std::shared_ptr<const NeighbourGraph> graph_;
  std::map<size_t, Secret> seeds_, keys_;  // that the attack has found, by owner
};

SecureSettings PlanOf(int64_t min_survivors = 3) {
  return {.min_cohort = min_survivors, .min_survivors = min_survivors, .drop_out = 0.1, .word_bits = 64};
}

// Names behind which the coordinator is, with certificates by `holder_of`; their keys are signed by `signs`.
std::function<void(Party&, int)> Puppets(std::function<const TestAuthority::Holder&(const std::string& name)> holder_of,
                                         bool signs = true) {
  return [holder_of = std::move(holder_of), signs](Party& party, int) {
    const TestAuthority::Holder& holder = holder_of(party.name);
    const Session session = {.run = "heart", .plan = Sha256Of("plan"), .model = Sha256Of("model"), .version = 3};
    party.keys.voucher.certificate = DerOf(holder.certificate);
    party.keys.voucher.signature =
        signs ? SignBytes(holder.key.get(), KeysToSign(SessionContext(session), party.keys.channel, party.keys.mask))
                    .value()
              : "none";
    party.signs = signs ? holder.key.get() : nullptr;
  };
}

struct AttackCase {
  Refusal refusal;
  const char* name;
  SecureSettings plan;
  Lies lies;
  size_t least = kLeastSum;  // clients in a sum that the coordinator may read
  const char* sentence;      // of the refusal
};

const RevocationList& NewList() {
  static const auto* const list = [] {
    std::vector<std::string> serials;
    for (size_t i = 1; i < kMembers; ++i)
      serials.push_back(HolderOf(fmt::format("client-{:05}", i)).certificate.serial);
    return new RevocationList(ReadRevocationList(SharedAuthority().RevocationListPem(serials, 2), "a test's list",
                                                 SharedAuthority().certificate())
                                  .value());
  }();
  return *list;
}

std::vector<AttackCase> AttackCases() {
  static const auto* const other = new TestAuthority("Invented study");
  static auto* const invented = new std::map<std::string, TestAuthority::Holder>;
  const auto all = [](size_t) { return AllOf(kMembers); };
  const auto seven = [](size_t) { return OnlyOf(kMembers, {0, 1, 2, 3, 4, 5, 6}); };
  const auto known = [](const std::string& name) -> const TestAuthority::Holder& { return HolderOf(name); };
  const auto colluding = [](const std::string&) -> const TestAuthority::Holder& { return HolderOf("client-00001"); };
  const auto foreign = [](const std::string& name) -> const TestAuthority::Holder& {
    const auto found = invented->find(name);
    return found != invented->end() ? found->second : invented->emplace(name, other->Issue(name)).first->second;
  };
  std::vector<AttackCase> cases;

  SecureSettings ten = PlanOf();
  ten.min_cohort = kMembers;
  cases.push_back({Refusal::kSmallCohort,
                   "SmallCohort",
                   ten,
                   {.clients = 3, .survivors = {[](size_t) { return AllOf(3); }}},
                   kLeastSum,
                   "the cohort has 3 members, and the signed plan asks for 10"});

  SecureSettings eight = PlanOf();
  eight.least_sum = 8;
  cases.push_back({Refusal::kWeakGraph, "WeakGraph", eight, {.survivors = {seven}}, 8, "the plan asks for 8"});

  Lies twice{.clients = 1, .survivors = {}};
  twice.puppet = [named = Puppets(colluding)](Party& party, int number) {
    party.name = "client-00001";
    named(party, number);
  };
  cases.push_back({Refusal::kMemberTwice, "MemberTwice", PlanOf(), twice, kLeastSum, "is listed twice"});

  Lies older{.clients = 1, .puppet = Puppets(known), .survivors = {}};
  older.setup = [](ClientSetup& setup) { setup.trust.revoked = &NewList(); };
  older.revocation_list = SharedAuthority().RevocationListPem({}, 1);
  cases.push_back({Refusal::kOlderList, "OlderList", PlanOf(), older, kLeastSum,
                   "revocation list has the number 1, and this client has seen 2"});

  Lies revoked = older;
  revoked.revocation_list.clear();
  cases.push_back({Refusal::kInvalidCertificate, "RevokedCertificate", PlanOf(), revoked, kLeastSum, "revoked"});
  cases.push_back({Refusal::kInvalidCertificate,
                   "ForeignCertificate",
                   PlanOf(),
                   {.clients = 1, .puppet = Puppets(foreign), .survivors = {}},
                   kLeastSum,
                   "is not signed by the authority"});
  cases.push_back({Refusal::kOthersCertificate,
                   "OthersCertificate",
                   PlanOf(),
                   {.clients = 1, .puppet = Puppets(colluding), .survivors = {}},
                   kLeastSum,
                   "shows the certificate of 'client/client-00001'"});
  cases.push_back({Refusal::kUnsignedKeys,
                   "UnsignedKeys",
                   PlanOf(),
                   {.clients = 1, .puppet = Puppets(known, false), .survivors = {}},
                   kLeastSum,
                   "did not sign its keys for this attempt"});

  // The victim's words then have no mask but its own, and the others reveal its seed, as that of any survivor.
  cases.push_back({Refusal::kFewSharers,
                   "FewSharers",
                   PlanOf(),
                   {.victim_alone_shared = true, .survivors = {all}},
                   kLeastSum,
                   "1 holders of this client's secrets shared theirs, and 7 are needed"});
  cases.push_back({Refusal::kFewSurvivors,
                   "FewSurvivors",
                   PlanOf(9),
                   {.survivors = {seven}},
                   9,
                   "7 clients survive, and the signed plan asks for 9"});

  // Six are said to survive by all; each of the other four by itself and three of ten.
  Lies sets{.survivors = {[](size_t client) {
              Set set = AllOf(kMembers);
              for (size_t out = 6; out < kMembers; ++out) {
                const bool stays = client < 6 ? client % 4 == out - 6 : client == out;
                set[out] = stays;
              }
              return set;
            }}};
  sets.signers = [](size_t, const Set& told) { return told; };
  cases.push_back({Refusal::kOtherSet, "OtherSet", PlanOf(), sets, kLeastSum,
                   "did not sign the set of survivors that this client signed"});

  // Each is told that the victim, itself and one more survive: the victim's seed is revealed, and all others' mask
  // keys.
  Lies few{.survivors = {[](size_t client) {
             if (client == kIsolated) return OnlyOf(kMembers, {kIsolated, 1, 2});
             return OnlyOf(kMembers, {kIsolated, client, client + 1 < kMembers ? client + 1 : 1});
           }}};
  cases.push_back({Refusal::kFewSignatures, "FewSignatures", PlanOf(), few, kLeastSum,
                   "holders of this client's secrets signed its set of survivors, and 7 are needed"});

  Lies again{.survivors = {all, [](size_t) {
                             Set set = AllOf(kMembers);
                             set[kIsolated] = false;
                             return set;
                           }}};
  cases.push_back({Refusal::kSecondAnswer, "SecondAnswer", PlanOf(), again, kLeastSum, "was answered before"});
  return cases;
}

// What a recording gives when nobody lied: the sum of the survivors, whoever dropped out at which step.
TEST(RecordingAttack, OfAnHonestRun_FindsTheSumAlone) {
  const Lies lies{.survivors = {[](size_t) { return AllOf(kMembers); }}};
  const Attack attack(lies, PlanOf(), Refusal::kNone);
  for (size_t client = 0; client < kMembers; ++client) EXPECT_EQ(attack.SmallestSumWith(client), kMembers);
  EXPECT_THAT(attack.refusals(), ::testing::IsEmpty());
  const Lies dropped{.survivors = {[](size_t) { return OnlyOf(kMembers, {0, 1, 2, 3, 5, 6, 7, 9}); }}};
  EXPECT_EQ(Attack(dropped, PlanOf(), Refusal::kNone).SmallestSum(), 8u);
}

TEST(RecordingAttack, FailsWhileClientsRefuse_AndSucceedsWithoutAnyOneRefusal) {
  for (const AttackCase& lie : AttackCases()) {
    SCOPED_TRACE(lie.name);
    const Attack refused(lie.lies, lie.plan, Refusal::kNone);
    EXPECT_THAT(refused.refusals(), ::testing::Contains(::testing::HasSubstr(lie.sentence)));
    if (const size_t found = refused.SmallestSum(); found != 0) {
      EXPECT_GE(found, lie.least);
    }
    const Attack allowed(lie.lies, lie.plan, lie.refusal);
    const size_t found = allowed.SmallestSum();
    EXPECT_GT(found, 0u) << "the attack finds nothing without this refusal either";
    EXPECT_LT(found, lie.least);
  }
}

// No case is missing: each refusal that a test can take out has its attack.
TEST(RecordingAttack, EachRefusalHasItsAttack) {
  std::set<int> attacked;
  for (const AttackCase& lie : AttackCases()) attacked.insert(static_cast<int>(lie.refusal));
  for (int refusal = 1; refusal <= static_cast<int>(Refusal::kSecondAnswer); ++refusal) {
    EXPECT_TRUE(attacked.contains(refusal)) << refusal;
  }
}

}  // namespace
}  // namespace rivulet::secure

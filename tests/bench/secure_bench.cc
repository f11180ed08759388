// secure/PART: secure aggregation compared with its minimum, the keystream with its addition and X25519, measured in
// the same run. Rows are processor time. `ruler_share` is the minimum's share of the time.
#include <benchmark/benchmark.h>
#include <time.h>

#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "certificates/signature.h"
#include "federated/secure/announcement.h"
#include "federated/secure/key_derivation.h"
#include "federated/secure/keystream.h"
#include "federated/secure/messages.h"
#include "federated/secure/secagg_client.h"
#include "federated/secure/secagg_server.h"
#include "federated/secure/shamir.h"
#include "tests/federated/secure/test_authority.h"

namespace rivulet::bench {
namespace {

using namespace secure;  // NOLINT: a room's worth of names
using testing::HolderOf;
using testing::SharedAuthority;

// Of this thread's processor time: both halves run in one thread.
double SecondsOfCall(const std::function<void()>& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  work();
  return now() - begin;
}

constexpr std::array<uint8_t, kCipherKeyBytes> kSomeKey{1, 2, 3};

constexpr int kMasksOfRuler = 10;

// Adds so many masks to `sum`, together.
bool AddMasks(std::span<uint32_t> sum) {
  MaskAdder adder = *MaskAdder::Create(std::as_writable_bytes(sum), 32);
  bool good = true;
  for (int i = 0; i < kMasksOfRuler; ++i) good = adder.Add(kSomeKey, MaskSign::kAdd).ok() && good;
  return adder.Finish().ok() && good;
}

// Seconds for one byte of a mask of `words`, and for one agreement. The best of a few, once for a length.
double SecondsPerByte(size_t words) {
  static std::map<size_t, double> known;
  if (known.contains(words)) return known[words];
  std::vector<uint32_t> sum(words);
  double best = 1e9;
  for (int i = 0; i < 20; ++i) best = std::min(best, SecondsOfCall([&] { (void)AddMasks(sum); }));
  return known[words] = best / kMasksOfRuler / (4 * static_cast<double>(words));
}

double SecondsPerAgreement() {
  static const double seconds = [] {
    const AgreementKey own = *AgreementKey::Generate(), other = *AgreementKey::Generate();
    double best = 1e9;
    for (int i = 0; i < 20; ++i) {
      best = std::min(best, SecondsOfCall([&] {
                        for (int j = 0; j < 100; ++j) benchmark::DoNotOptimize(own.Agree(other.public_key()));
                      }));
    }
    return best / 100;
  }();
  return seconds;
}

void BenchKeystream(benchmark::State& state) {
  std::vector<uint32_t> sum(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    if (!AddMasks(sum)) return state.SkipWithError("no masks");
  }
  const double bytes = static_cast<double>(state.iterations()) * kMasksOfRuler * 4 * static_cast<double>(sum.size());
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
}

void BenchAgreement(benchmark::State& state) {
  const AgreementKey own = *AgreementKey::Generate(), other = *AgreementKey::Generate();
  for (auto _ : state) benchmark::DoNotOptimize(own.Agree(other.public_key()));
  state.counters["agreements/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

Session SomeSession() {
  return {.run = "bench", .plan = Sha256Of("plan"), .model = Sha256Of("model"), .version = 1, .attempt = 1};
}
Trust SomeTrust() { return {.authority = &SharedAuthority().certificate(), .now = testing::kHarnessNow}; }
std::string NameOf(size_t i) { return fmt::format("client-{:05}", i); }

ClientSetup SetupOf(size_t i, const SecureSettings& settings) {
  const testing::TestAuthority::Holder& holder = HolderOf(NameOf(i));
  return {.name = NameOf(i),
          .session = SomeSession(),
          .settings = settings,
          .policy = {},
          .certificate = &holder.certificate,
          .key = holder.key.get(),
          .trust = SomeTrust()};
}

// All steps of one client among 101 of a complete graph, so with 100 neighbours; the others are not timed.
void BenchSecureClient(benchmark::State& state) {
  constexpr size_t kMembers = 101, kWords = 1'663'370;
  SecureSettings settings{.max_colluding = 34};  // too many for a sparse graph
  for (auto _ : state) {
    std::vector<std::unique_ptr<SecAggClient>> clients;
    auto server = *SecAggServer::Create({SomeSession(), settings, SomeTrust(), ""});
    for (size_t i = 0; i < kMembers; ++i) clients.push_back(*SecAggClient::Create(SetupOf(i, settings)));
    std::vector<uint32_t> words(kWords, 5), sum(kWords);
    std::vector<std::byte> few(4);
    double seconds = 0;
    for (int step = 0; step < 5; ++step) {
      for (size_t i = 0; i < kMembers; ++i) {
        const std::string input = *server->InputFor(NameOf(i));
        StatusOr<std::string> answer = "";
        const auto work = [&] {
          if (step == 2) {
            const Status masked =
                clients[i]->Mask(input, i == 0 ? std::as_writable_bytes(std::span(words)) : std::span(few));
            if (!masked.ok()) answer = masked;
          } else {
            answer = clients[i]->Answer(step, input);
          }
        };
        if (i == 0) {
          seconds += SecondsOfCall(work);
        } else {
          work();
        }
        if (!answer.ok() || !server->Accept(NameOf(i), *answer).ok()) return state.SkipWithError("a step failed");
      }
      if (!server->Close().ok()) return state.SkipWithError("a step has too few answers");
    }
    if (server->shape().neighbours != 100) return state.SkipWithError("not 100 neighbours");
    state.SetIterationTime(seconds);
    const double ruler = 101 * 4 * static_cast<double>(kWords) * SecondsPerByte(kWords) + 200 * SecondsPerAgreement();
    state.counters["ruler_ms"] = ruler * 1e3;
    state.counters["ruler_share"] = ruler / seconds;
  }
}

// One member as the coordinator meets it: keys and shares, without the work that its own half would have.
struct FakeMember {
  std::optional<AgreementKey> channel, mask;
  SecretBytes seed, seed_shares, key_shares;
};

// 500 clients of which 50 drop out before their words, 100,000 parameters; a coordinator's part of all steps.
void BenchSecureServer(benchmark::State& state) {
  constexpr uint32_t kMembers = 500, kDropped = 50;
  constexpr size_t kWords = 100'000;
  const bool complete = state.range(0) != 0;
  // So many colluding and dropped members that no sparse graph bears them.
  const SecureSettings settings{.max_colluding = complete ? 100 : 50, .drop_out = complete ? 0.3 : 0.1};
  const GraphShape shape = *ChooseGraph(NeedsOf(settings, kMembers));
  if (shape.complete != complete) return state.SkipWithError("another graph");
  const auto drops = [](uint32_t member) { return member % (kMembers / kDropped) == 3; };
  for (auto _ : state) {
    double seconds = 0, unmask_seconds = 0;
    bool good = true;
    auto server = *SecAggServer::Create({SomeSession(), settings, SomeTrust(), ""});
    const auto accept = [&](uint32_t member, const std::string& answer) {
      seconds += SecondsOfCall([&] { good = good && server->Accept(NameOf(member), answer).ok(); });
    };
    const auto inputs = [&](bool all) {
      seconds += SecondsOfCall([&] {
        for (uint32_t member = 0; member < kMembers; ++member)
          if (all || !drops(member)) good = good && server->InputFor(NameOf(member)).ok();
      });
    };
    const auto close = [&] { seconds += SecondsOfCall([&] { good = good && server->Close().ok(); }); };

    std::vector<FakeMember> members(kMembers);
    std::vector<Member> listed;
    for (uint32_t i = 0; i < kMembers; ++i) {
      members[i].channel = *AgreementKey::Generate();
      members[i].mask = *AgreementKey::Generate();
      listed.push_back({NameOf(i), members[i].channel->public_key(), members[i].mask->public_key()});
      const auto& holder = HolderOf(NameOf(i));
      accept(i, BytesOf(KeysMessage{listed[i].channel,
                                    listed[i].mask,
                                    {DerOf(holder.certificate),
                                     *SignBytes(holder.key.get(), KeysToSign(SessionContext(SomeSession()),
                                                                             listed[i].channel, listed[i].mask))}}));
    }
    close();
    const Digest context = CohortContext(SessionContext(SomeSession()), listed);
    const auto graph = *NeighbourGraph::Create(context, kMembers, shape);
    inputs(true);
    for (uint32_t i = 0; i < kMembers; ++i) {
      std::vector<uint32_t> numbers = graph->HoldersOf(i);
      for (uint32_t& number : numbers) ++number;
      members[i].seed = *SecretBytes::Random(32);
      members[i].seed_shares = *ShareSecret(members[i].seed.span().first<32>(), shape.threshold, numbers);
      members[i].key_shares =
          *ShareSecret(members[i].mask->PrivateBytes()->span().first<32>(), shape.threshold, numbers);
      const Digest digest =
          std::move(Sha256().Update(std::as_bytes(std::span<const uint8_t>(members[i].seed.span())))).Finish();
      accept(i, BytesOf(SharesMessage{digest, std::string(static_cast<size_t>(shape.neighbours) * kSealedBytes, 's')}));
    }
    close();
    inputs(true);
    std::vector<bool> survivors(kMembers);
    for (uint32_t i = 0; i < kMembers; ++i) {
      survivors[i] = !drops(i);
      if (survivors[i]) accept(i, "");
    }
    close();
    inputs(false);
    for (uint32_t i = 0; i < kMembers; ++i) {
      if (!survivors[i]) continue;
      accept(i,
             AgreementBytes(*SignBytes(HolderOf(NameOf(i)).key.get(), SurvivorsToSign(context, SetBytes(survivors)))));
    }
    close();
    inputs(false);
    for (uint32_t i = 0; i < kMembers; ++i) {
      if (!survivors[i]) continue;
      std::string shares;
      for (const uint32_t owner : graph->HoldersOf(i)) {
        const std::vector<uint32_t> theirs = graph->HoldersOf(owner);
        const auto place = static_cast<size_t>(std::lower_bound(theirs.begin(), theirs.end(), i) - theirs.begin());
        const auto share =
            (survivors[owner] ? members[owner].seed_shares : members[owner].key_shares).part(32 * place, 32);
        shares.append(reinterpret_cast<const char*>(share.data()), share.size());
      }
      accept(i, RevealBytes(shares));
    }
    // What is left of the masks in a sum of zeros.
    std::vector<uint32_t> sum(kWords);
    MaskAdder adder = *MaskAdder::Create(std::as_writable_bytes(std::span(sum)), 32);
    size_t masks = 0, agreements = 0;
    for (uint32_t i = 0; i < kMembers; ++i) {
      if (survivors[i]) {
        const SecretBytes key = *DeriveKey(members[i].seed.span(), SelfMaskInfo(context, i), 32);
        good = good && adder.Add(key.span().first<32>(), MaskSign::kAdd).ok();
        ++masks;
        continue;
      }
      for (const uint32_t other : graph->NeighboursOf(i)) {
        if (!survivors[other]) continue;
        const SecretBytes agreed = *members[other].mask->Agree(listed[i].mask);
        const SecretBytes key =
            *DeriveKey(agreed.span(), PairMaskInfo(context, std::min(i, other), std::max(i, other)), 32);
        good = good && adder.Add(key.span().first<32>(), other < i ? MaskSign::kAdd : MaskSign::kSubtract).ok();
        ++masks, ++agreements;
      }
    }
    good = adder.Finish().ok() && good;
    unmask_seconds = SecondsOfCall([&] { good = good && server->Unmask(std::as_writable_bytes(std::span(sum))).ok(); });
    seconds += unmask_seconds;
    if (!good || std::accumulate(sum.begin(), sum.end(), uint64_t{0}) != 0) return state.SkipWithError("a wrong sum");
    state.SetIterationTime(seconds);
    const double ruler = static_cast<double>(masks) * 4 * kWords * SecondsPerByte(kWords) +
                         static_cast<double>(agreements) * SecondsPerAgreement();
    state.counters["neighbours"] = shape.neighbours;
    state.counters["unmask_ms"] = unmask_seconds * 1e3;
    state.counters["ruler_ms"] = ruler * 1e3;
    state.counters["ruler_share"] = ruler / seconds;
  }
}

BENCHMARK(BenchKeystream)->Name("secure/keystream")->Arg(100'000)->Arg(1'663'370)->Unit(benchmark::kMillisecond);
BENCHMARK(BenchAgreement)->Name("secure/x25519")->Unit(benchmark::kMicrosecond);
BENCHMARK(BenchSecureClient)
    ->Name("secure/client/1.66M_100_neighbours")
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BenchSecureServer)
    ->Name("secure/server/500_clients")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rivulet::bench

#include "client/training/example_accounts.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "client/training/example_steps.h"
#include "client/training/failure.h"
#include "engine/base/awaited_lock.h"
#include "federated/plan/example_noise.h"
#include "federated/privacy/accountant.h"

namespace rivulet {
namespace {

constexpr char kKeyFile[] = "noise.key";
constexpr std::string_view kFirstLine = "rivulet example account 1\n";
constexpr std::string_view kClientLine = "client ", kChargedLine = "charged ", kWorkLine = "work ";
constexpr char kLockFile[] = "lock";
constexpr size_t kWorksKept = 64;
// A charge takes some milliseconds, and the accountant's first answer a fraction of a second.
constexpr std::chrono::seconds kLockPatience{10};
constexpr size_t kDigitsOfName = 24;

std::string FileOf(std::string_view client_id) { return Sha256Of(client_id).Hex().substr(0, kDigitsOfName); }

template <typename Number>
bool TakeNumber(std::string_view& text, Number& number) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool SameKind(const privacy::NoisedRounds& a, const privacy::NoisedRounds& b) {
  return a.multiplier == b.multiplier && a.rate == b.rate && a.sensitivity == b.sensitivity &&
         a.dimension == b.dimension;
}

StatusOr<double> EpsilonOfRounds(const std::vector<privacy::NoisedRounds>& rounds, double delta) {
  RIVULET_ASSIGN_OR_RETURN(const privacy::Spend spend, privacy::EpsilonOf({.rounds = rounds}, delta));
  return spend.value;
}

}  // namespace

Status ExampleAccounts::OpenKey() {
  if (key_) return absl::OkStatus();
  RIVULET_RETURN_IF_ERROR(files_.CreateFolders(folder_));
  const std::string path = JoinPath(folder_, kKeyFile);
  auto key = files_.Exists(path) ? privacy::NoiseKey::Read(files_, path) : privacy::NoiseKey::Create(files_, path);
  // Another process of this site was faster.
  if (absl::IsAlreadyExists(key.status())) key = privacy::NoiseKey::Read(files_, path);
  RIVULET_RETURN_IF_ERROR(key.status());
  key_ = *std::move(key);
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<FileLock>> ExampleAccounts::Lock() const {
  if (!sync_) return nullptr;
  RIVULET_RETURN_IF_ERROR(files_.CreateFolders(folder_));
  return AwaitLock(JoinPath(folder_, kLockFile), kLockPatience);
}

StatusOr<privacy::NoiseKey> ExampleAccounts::KeyOf(FileSystem& files, const std::string& folder, const Task& task,
                                                   const Plan& plan, const ExampleData& data) {
  const std::optional<ExampleNoise> noise = ExampleNoiseOf(plan);
  if (noise && noise->seeded) return SeededExampleKey(task);
  RIVULET_ASSIGN_OR_RETURN(const privacy::NoiseKey key, privacy::NoiseKey::Read(files, JoinPath(folder, kKeyFile)));
  return ExampleKeyOf(key, ExampleWorkOf(task, data.digest, plan, ""));
}

StatusOr<ExampleAccounts::Charges> ExampleAccounts::Parse(const std::string& path, const std::string& text) {
  const auto damaged = [&] {
    return DataLoss(
        "'{}' is no account of this program, or damaged; restore it from a copy, so that nothing is forgotten", path);
  };
  std::string_view rest = text;
  if (!rest.starts_with(kFirstLine) || !rest.ends_with('\n')) return damaged();
  rest.remove_prefix(kFirstLine.size());
  Charges charges;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.starts_with(kClientLine)) {
      charges.client = line.substr(kClientLine.size());
    } else if (line.starts_with(kWorkLine)) {
      charges.newest.emplace_back(line.substr(kWorkLine.size()));
    } else if (line.starts_with(kChargedLine)) {
      line.remove_prefix(kChargedLine.size());
      privacy::NoisedRounds rounds{.noise = privacy::NoiseLaw::kDiscreteGaussian};
      if (!TakeNumber(line, rounds.multiplier) || !TakeNumber(line, rounds.rate) || !TakeNumber(line, rounds.count) ||
          !TakeNumber(line, rounds.sensitivity) || !TakeNumber(line, rounds.dimension) || !line.empty() ||
          !(rounds.multiplier > 0) || !(rounds.rate > 0) || rounds.rate > 1 || rounds.count < 1 ||
          !(rounds.sensitivity >= 1) || rounds.dimension < 1) {
        return damaged();
      }
      if (rounds.rate < 1) rounds.sampling = privacy::SamplingKind::kPoisson;
      charges.rounds.push_back(rounds);
    } else {
      return damaged();
    }
  }
  return charges;
}

std::string ExampleAccounts::TextOf(const Charges& charges) {
  std::string text(kFirstLine);
  text += fmt::format("{}{}\n", kClientLine, charges.client);
  for (const privacy::NoisedRounds& r : charges.rounds) {
    text += fmt::format("{}{} {} {} {} {}\n", kChargedLine, r.multiplier, r.rate, r.count, r.sensitivity, r.dimension);
  }
  for (const std::string& work : charges.newest) text += fmt::format("{}{}\n", kWorkLine, work);
  return text;
}

StatusOr<ExampleAccounts::Charges*> ExampleAccounts::ChargesOf(std::string_view client_id) {
  const auto found = charges_.find(client_id);
  if (found != charges_.end() && !sync_) return &found->second;
  const std::string path = JoinPath(folder_, FileOf(client_id));
  Charges charges;
  if (files_.Exists(path)) {
    RIVULET_ASSIGN_OR_RETURN(const std::string text, files_.ReadAll(path));
    RIVULET_ASSIGN_OR_RETURN(charges, Parse(path, text));
  }
  charges.client = client_id;
  return &charges_.insert_or_assign(std::string(client_id), std::move(charges)).first->second;
}

Status ExampleAccounts::Write(const Charges& charges) {
  const std::string path = JoinPath(folder_, FileOf(charges.client));
  if (sync_) return WriteFileAtomically(files_, path, TextOf(charges));
  const std::string part = path + ".part";
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_.Create(part));
  RIVULET_RETURN_IF_ERROR(file->Append(TextOf(charges)));
  RIVULET_RETURN_IF_ERROR(file->Close());
  return files_.Rename(part, path);
}

// For one kind of round only a number of steps is needed, which clients of one size share.
StatusOr<bool> ExampleAccounts::Fits(const Charges& charges, double epsilon, double delta) {
  if (charges.rounds.size() > 1) {
    RIVULET_ASSIGN_OR_RETURN(const double spent, EpsilonOfRounds(charges.rounds, delta));
    return spent <= epsilon;
  }
  privacy::NoisedRounds kind = charges.rounds.front();
  const std::vector<double> numbers = {
      kind.multiplier, kind.rate, kind.sensitivity, static_cast<double>(kind.dimension), epsilon, delta};
  const auto found = most_steps_.find(numbers);
  if (found != most_steps_.end()) return kind.count <= found->second;
  const int64_t steps = std::exchange(kind.count, 1);
  const auto most = privacy::MostRounds({.rounds = {kind}}, epsilon, delta);
  if (!most.ok() && !absl::IsOutOfRange(most.status())) return most.status();
  // OUT_OF_RANGE: more steps than any task has.
  most_steps_[numbers] = most.ok() ? *most : INT64_MAX;
  return steps <= most_steps_[numbers];
}

StatusOr<privacy::NoiseKey> ExampleAccounts::Begin(const Task& task, std::string_view client_id, const Plan& plan,
                                                   const ExampleData& data) {
  const std::optional<ExampleNoise> noise = ExampleNoiseOf(plan);
  if (!noise) return FailedPrecondition("plan '{}' protects no single examples", plan.name());
  const Digest of_task = ExampleWorkOf(task, data.digest, plan, program_);
  const std::string work = of_task.Hex();
  RIVULET_ASSIGN_OR_RETURN(const privacy::NoisedRounds rounds, ExampleRoundsOf(plan, data.examples));
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(OpenKey());
  RIVULET_ASSIGN_OR_RETURN(const auto other_processes, Lock());
  RIVULET_ASSIGN_OR_RETURN(Charges* const charges, ChargesOf(client_id));
  // A task of a client without examples has no step.
  if (rounds.count > 0 && std::ranges::find(charges->newest, work) == charges->newest.end()) {
    Charges next = *charges;
    const auto same = std::ranges::find_if(next.rounds, [&](const auto& charged) { return SameKind(charged, rounds); });
    if (same != next.rounds.end()) {
      same->count += rounds.count;
    } else {
      next.rounds.push_back(rounds);
    }
    if (noise->epsilon > 0) {
      RIVULET_ASSIGN_OR_RETURN(const bool fits, Fits(next, noise->epsilon, noise->delta));
      if (!fits) {
        return WithReason(
            FailedPrecondition("another task of plan '{}' would spend more than epsilon {:g} (privacy.epsilon) of "
                               "the examples of client '{}', at delta {:g}",
                               plan.name(), noise->epsilon, client_id, noise->delta),
            TaskFailure::Code::kNotWilling, "privacy budget");
      }
    }
    next.newest.push_back(work);
    if (next.newest.size() > kWorksKept) next.newest.pop_front();
    // After an error the charge stays in memory, or is read again: it is unknown whether it is on disk.
    *charges = std::move(next);
    RIVULET_RETURN_IF_ERROR(Write(*charges));
  }
  return noise->seeded ? StatusOr<privacy::NoiseKey>(SeededExampleKey(task)) : ExampleKeyOf(*key_, of_task);
}

StatusOr<double> ExampleAccounts::SpentBy(std::string_view client_id, double delta) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const auto other_processes, Lock());
  RIVULET_ASSIGN_OR_RETURN(const Charges* const charges, ChargesOf(client_id));
  if (charges->rounds.empty()) return 0.0;
  return EpsilonOfRounds(charges->rounds, delta);
}

StatusOr<std::vector<ExampleAccounts::Account>> ExampleAccounts::List(FileSystem& files, const std::string& folder,
                                                                      double delta) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::vector<Account> accounts;
  std::map<std::string, double> known;  // by charges: many clients have the same
  for (const std::string& name : names) {
    if (name.size() != kDigitsOfName) continue;
    const std::string path = JoinPath(folder, name);
    RIVULET_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path));
    RIVULET_ASSIGN_OR_RETURN(Charges charges, Parse(path, text));
    Account& account = accounts.emplace_back(Account{.client = charges.client});
    for (const privacy::NoisedRounds& rounds : charges.rounds) account.steps += rounds.count;
    charges.client.clear();
    charges.newest.clear();
    const auto [at, added] = known.try_emplace(TextOf(charges));
    if (added && !charges.rounds.empty()) {
      RIVULET_ASSIGN_OR_RETURN(at->second, EpsilonOfRounds(charges.rounds, delta));
    }
    account.epsilon = at->second;
  }
  std::ranges::sort(accounts, {}, &Account::client);
  return accounts;
}

}  // namespace rivulet

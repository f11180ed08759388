#include "client/agent/privacy_ledger.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "client/training/failure.h"
#include "engine/base/awaited_lock.h"
#include "federated/privacy/accountant.h"

namespace rivulet {
namespace {

constexpr std::string_view kHeader = "rivulet privacy ledger 1\n", kCharged = "charged ", kTask = "task ";
constexpr size_t kTasksKept = 1024;
constexpr size_t kDigitsOfAuthority = 24;
// A charge takes some milliseconds.
constexpr std::chrono::seconds kLockPatience{10};

template <typename Number>
bool IsNumber(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// The cost of one task with this claim, as a multiplier under add-remove.
double MultiplierOf(const PrivacyClaim& claim) {
  return claim.replace_one ? claim.noise_multiplier / 2 : claim.noise_multiplier;
}

Status Unwilling(Status status, std::string_view subject) {
  return WithReason(std::move(status), TaskFailure::Code::kNotWilling, subject);
}

}  // namespace

std::string PrivacyLedgerPath(std::string_view folder, const std::optional<Digest>& authority) {
  return JoinPath(folder, (authority ? authority->Hex().substr(0, kDigitsOfAuthority) : "plaintext") + ".ledger");
}

StatusOr<std::unique_ptr<PrivacyLedger>> PrivacyLedger::Open(FileSystem& files, std::string path, Budget budget,
                                                             const std::string& earlier) {
  RIVULET_RETURN_IF_ERROR(files.CreateFolders(FolderOf(path)));
  std::unique_ptr<PrivacyLedger> ledger(new PrivacyLedger(files, std::move(path), budget));
  MutexLock locked(ledger->mutex_);
  RIVULET_ASSIGN_OR_RETURN(const auto lock, ledger->Lock());
  RIVULET_RETURN_IF_ERROR(ledger->Reload());
  if (earlier.empty() || !files.Exists(earlier)) return ledger;
  RIVULET_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(earlier));
  RIVULET_RETURN_IF_ERROR(ledger->Read(earlier, text));
  // A crash between the two writes charges it twice, and never loses it.
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, ledger->path_, ledger->Text()));
  RIVULET_RETURN_IF_ERROR(files.Remove(earlier));
  return ledger;
}

// Held for a few milliseconds at a time, by processes of the same site.
StatusOr<std::unique_ptr<FileLock>> PrivacyLedger::Lock() const { return AwaitLock(path_ + ".lock", kLockPatience); }

Status PrivacyLedger::Reload() {
  charged_.clear();
  newest_.clear();
  if (!files_.Exists(path_)) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const std::string text, files_.ReadAll(path_));
  return Read(path_, text);
}

Status PrivacyLedger::Read(const std::string& path, const std::string& text) {
  const auto damaged = [&] {
    return DataLoss(
        "'{}' is no privacy ledger of this program, or damaged; restore it from a copy, so that nothing is "
        "forgotten",
        path);
  };
  std::string_view rest = text;
  if (!rest.starts_with(kHeader) || !rest.ends_with('\n')) return damaged();
  rest.remove_prefix(kHeader.size());
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.starts_with(kTask)) {
      newest_.emplace_back(line.substr(kTask.size()));
      continue;
    }
    const size_t space = line.rfind(' ');
    double multiplier = 0;
    int64_t tasks = 0;
    if (!line.starts_with(kCharged) || space < kCharged.size() ||
        !IsNumber(line.substr(kCharged.size(), space - kCharged.size()), multiplier) ||
        !IsNumber(line.substr(space + 1), tasks) || !(multiplier > 0) || tasks < 1) {
      return damaged();
    }
    charged_[multiplier] += tasks;
  }
  return absl::OkStatus();
}

std::string PrivacyLedger::Text() const {
  std::string text(kHeader);
  for (const auto& [multiplier, tasks] : charged_) text += fmt::format("{}{} {}\n", kCharged, multiplier, tasks);
  for (const TaskId& task : newest_) text += fmt::format("{}{}\n", kTask, task);
  return text;
}

StatusOr<double> PrivacyLedger::SpentWith(double multiplier) const {
  privacy::Composition composition;
  for (const auto& [charged, tasks] : charged_) composition.rounds.push_back({.multiplier = charged, .count = tasks});
  if (multiplier > 0) composition.rounds.push_back({.multiplier = multiplier});
  RIVULET_ASSIGN_OR_RETURN(const privacy::Spend spend, privacy::EpsilonOf(composition, budget_.delta));
  return spend.value;
}

bool PrivacyLedger::IsCharged(const TaskId& task, Again again) const {
  return again == Again::kSameBits && std::ranges::find(newest_, task) != newest_.end();
}

Status PrivacyLedger::CheckLocked(const TaskId& task, const Plan& plan, Again again) {
  if (IsCharged(task, again)) return absl::OkStatus();
  if (!plan.privacy()) {
    return Unwilling(FailedPrecondition("plan '{}' claims no noise, and this site has a privacy budget "
                                        "(privacy.max_epsilon)",
                                        plan.name()),
                     "no noise");
  }
  RIVULET_ASSIGN_OR_RETURN(const double spent, SpentWith(MultiplierOf(*plan.privacy())));
  if (spent <= budget_.epsilon) return absl::OkStatus();
  return Unwilling(FailedPrecondition("a task of plan '{}' would spend epsilon {:.4g} of this site in all, at delta "
                                      "{:g}, and privacy.max_epsilon is {:g}",
                                      plan.name(), spent, budget_.delta, budget_.epsilon),
                   "privacy budget");
}

Status PrivacyLedger::Check(const TaskId& task, const Plan& plan, Again again) {
  MutexLock locked(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const auto lock, Lock());
  RIVULET_RETURN_IF_ERROR(Reload());
  return CheckLocked(task, plan, again);
}

Status PrivacyLedger::Charge(const TaskId& task, const Plan& plan, Again again) {
  MutexLock locked(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const auto lock, Lock());
  RIVULET_RETURN_IF_ERROR(Reload());
  RIVULET_RETURN_IF_ERROR(CheckLocked(task, plan, again));
  if (IsCharged(task, again)) return absl::OkStatus();
  ++charged_[MultiplierOf(*plan.privacy())];
  std::erase(newest_, task);
  newest_.push_back(task);
  if (newest_.size() > kTasksKept) newest_.pop_front();
  // After an error nothing is sent, whether or not the charge is on disk.
  return WriteFileAtomically(files_, path_, Text());
}

StatusOr<double> PrivacyLedger::Spent() {
  MutexLock locked(mutex_);
  RIVULET_ASSIGN_OR_RETURN(const auto lock, Lock());
  RIVULET_RETURN_IF_ERROR(Reload());
  return SpentWith(0);
}

StatusOr<std::string> PrivacyLedger::Sentence() {
  RIVULET_ASSIGN_OR_RETURN(const double spent, Spent());
  return fmt::format("epsilon {:.4g} of {:g} spent at delta {:g}", spent, budget_.epsilon, budget_.delta);
}

}  // namespace rivulet

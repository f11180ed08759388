// A site's accounts of example-level privacy, one for each of its clients, and the key of their noise. In a folder of
// the site's own:
//
//   noise.key             256 secret bits of this site, mode 0600 (federated/privacy/noise_key.h)
//   <24 digits of the SHA-256 of the client's name>
//
//   rivulet example account 1
//   client writer-0001
//   charged 1.1 0.0107 420 1073741824 7850   multiplier, rate, steps, sensitivity in units, parameters
//   work 9f86d081884c7d65…                   the newest tasks with their data (ExampleWorkOf), so that a training that
//                                            is resumed costs nothing
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/plan/plan.h"
#include "federated/privacy/noise_key.h"
#include "federated/privacy/rounds.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// The folder of a simulation's accounts, in the folder of the run's models.
inline constexpr char kExamplesFolder[] = "examples";

// The examples of a task.
struct ExampleData {
  int64_t examples = 0;
  Digest digest;  // of all of them and of the state that the task reads, in their order
};

// Accounts in one folder. Thread-safe. With `sync` also safe beside other processes with the same folder: each call
// reads the client's account under a system lock. Without it only this process may use the folder.
class ExampleAccounts {
 public:
  // The first Begin makes folder and key if missing. `sync`: a charge survives a power failure too. `program`: its
  // version, if another one may continue with the folder; simulations are replayed by any version.
  ExampleAccounts(FileSystem& files, std::string folder, bool sync, std::string program = "")
      : files_(files), folder_(std::move(folder)), sync_(sync), program_(std::move(program)) {}

  // Charges a training task of a plan that protects single examples, with these data, and gives the key of its draws
  // and its noise. The charge is written before this returns, and before anything is drawn. The same task with the same
  // data again costs nothing and has the same key; with other data it is charged and has another. FAILED_PRECONDITION,
  // with a reason that may leave the site: the plan's budget for its client does not allow the task. UNAVAILABLE:
  // another process keeps the lock. Other errors as `files` and NoiseKey::Read.
  StatusOr<privacy::NoiseKey> Begin(const Task& task, std::string_view client_id, const Plan& plan,
                                    const ExampleData& data);

  // The key of a simulation's task that was charged before, to train it again: nothing is charged. Errors as
  // NoiseKey::Read.
  static StatusOr<privacy::NoiseKey> KeyOf(FileSystem& files, const std::string& folder, const Task& task,
                                           const Plan& plan, const ExampleData& data);

  // The client's total spend in this folder.
  StatusOr<double> SpentBy(std::string_view client_id, double delta);

  // A folder's accounts by client's name, for tools. DATA_LOSS names a damaged file.
  struct Account {
    std::string client;
    int64_t steps = 0;
    double epsilon = 0;
  };
  static StatusOr<std::vector<Account>> List(FileSystem& files, const std::string& folder, double delta);

 private:
  struct Charges {
    std::string client;
    std::vector<privacy::NoisedRounds> rounds;
    std::deque<std::string> newest;  // work digests, as digits
  };
  Status OpenKey() REQUIRES(mutex_);
  static StatusOr<Charges> Parse(const std::string& path, const std::string& text);
  static std::string TextOf(const Charges& charges);
  // Null if only this process uses the folder. Waits a limited time for another process.
  StatusOr<std::unique_ptr<FileLock>> Lock() const;
  StatusOr<Charges*> ChargesOf(std::string_view client_id) REQUIRES(mutex_);
  Status Write(const Charges& charges) REQUIRES(mutex_);
  // Whether steps of one kind of round fit the budget; caches the accountant's answers.
  StatusOr<bool> Fits(const Charges& charges, double epsilon, double delta) REQUIRES(mutex_);

  FileSystem& files_;
  const std::string folder_;
  const bool sync_;
  const std::string program_;
  Mutex mutex_;
  std::optional<privacy::NoiseKey> key_ GUARDED_BY(mutex_);
  std::map<std::string, Charges, std::less<>> charges_ GUARDED_BY(mutex_);  // by client
  // The most steps of a kind within a budget, by its numbers.
  std::map<std::vector<double>, int64_t> most_steps_ GUARDED_BY(mutex_);
};

}  // namespace rivulet

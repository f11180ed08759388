// Privacy of one run: its noise key, the noise of its versions, the spend of its attempts, and its budget. The run's
// thread charges each closed attempt. The charge is in the attempt's rows before the version is served.
//
// The unit is one client with everything that it does in the run. With Poisson sampling, neighbouring runs differ by a
// client more or fewer (add-remove); with other selections by a client exchanged for another (replace-one).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/history/rows.h"
#include "coordinator/ledger/ledger.h"
#include "coordinator/run_parts.h"
#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "federated/privacy/noise_key.h"
#include "federated/privacy/spend_book.h"
#include "federated/privacy/sum_noise.h"
#include "federated/records/version_record.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// The file of a run's noise key, in the folder of its models. Backups, exports and imports leave it out.
inline constexpr char kNoiseKeyFile[] = "noise.key";

// Of a run with noise on its sums, or with sampling that is secret. Not thread-safe, but for what is const.
class RunPrivacy {
 public:
  // Of a new run, with a new key that is not written yet. Nullptr: the run has neither noise nor a budget.
  // `fixed_share`: the share of all members that every cohort is, where cohorts are uniform and nobody is replaced;
  // 1: nothing is claimed of sampling. INVALID_ARGUMENT: a budget that not one round fits into, a budget without noise,
  // or noise out of range.
  static StatusOr<std::unique_ptr<RunPrivacy>> Create(const Scenario& scenario, const RunParts& parts,
                                                      double fixed_share);
  // Writes a secret key into the folder of the run's models, synced: before anything of the run is told.
  Status WriteKey(FileSystem& files, const std::string& folder) const;
  // Of a stored run, with its key and the attempts of its earlier processes. Errors as Create and NoiseKey::Read.
  static StatusOr<std::unique_ptr<RunPrivacy>> Resume(const Scenario& scenario, const RunParts& parts,
                                                      double fixed_share, FileSystem& files, const std::string& folder,
                                                      const std::vector<RoundRow>& rows);

  // That the server adds; null: each client adds its own.
  const privacy::SumNoise* noise() const { return noise_ ? &*noise_ : nullptr; }
  bool samples() const { return attempt_.sampled(); }  // whether amplification by sampling is claimed
  const std::shared_ptr<const privacy::NoiseKey>& key() const { return key_; }

  // One attempt more, of a training. Gives what its row says.
  StatusOr<RoundSpend> Charge();
  // Why no attempt may follow; "": one may.
  StatusOr<std::string> Exhausted();

  // What a version's record states: what its attempt has noised and the run has spent. `clip`: of its updates.
  records::RecordedPrivacy Recorded(const RoundSpend& spend, double clip) const;
  double clip() const { return clip_; }  // that a run without adaptive clipping has throughout

  // What is told when the run begins.
  std::string Sentence() const;

 private:
  static StatusOr<std::unique_ptr<RunPrivacy>> With(std::shared_ptr<const privacy::NoiseKey> key,
                                                    const Scenario& scenario, const RunParts& parts,
                                                    double fixed_share);
  // Spent by all attempts so far and `more`.
  StatusOr<privacy::SpendBook::Epsilons> SpentWith(int64_t more) const;
  RunPrivacy(std::optional<privacy::SumNoise> noise, std::shared_ptr<const privacy::NoiseKey> key,
             privacy::NoisedRounds attempt, privacy::SpendBook book, double epsilon, const CentralNoise& settings)
      : noise_(std::move(noise)),
        key_(std::move(key)),
        attempt_(attempt),
        book_(std::move(book)),
        epsilon_(epsilon),
        clip_(settings.clip),
        seeded_(settings.seeded),
        separation_(settings.separation) {}

  std::optional<privacy::SumNoise> noise_;
  std::shared_ptr<const privacy::NoiseKey> key_;
  privacy::NoisedRounds attempt_;  // as each of this run is
  privacy::SpendBook book_;
  // What will be spent with one attempt more, where it is known: the accountant takes tens of milliseconds.
  std::optional<privacy::SpendBook::Epsilons> next_;
  double epsilon_;  // 0: no budget
  double clip_;
  bool seeded_;
  int64_t separation_;
};

}  // namespace rivulet

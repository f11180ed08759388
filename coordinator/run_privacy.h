// Privacy of one run: its noise key, the noise of its versions, the spend of its attempts, and its budget. The run's
// thread charges each closed attempt. The charge is in the attempt's rows before the version is served.
//
// The unit is one client with all its updates in the run. With Poisson sampling, neighbouring runs differ by one added
// or removed client (add-remove); with other selections, by one exchanged client (replace-one).
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

// Privacy of a run with noise on its sums or secret sampling. Not thread-safe, except for const members.
class RunPrivacy {
 public:
  // For a new run, with a new key that is not written yet. Nullptr: the run has neither noise nor a budget.
  // `fixed_share`: each cohort's share of all members, if cohorts are uniform and no client is replaced; 1: no
  // amplification by sampling is claimed. INVALID_ARGUMENT: a budget too small for one round, a budget without noise,
  // or noise out of range.
  static StatusOr<std::unique_ptr<RunPrivacy>> Create(const Scenario& scenario, const RunParts& parts,
                                                      double fixed_share);
  // Writes a secret key, synced, into the folder of the run's models. Call it before anything of the run is published.
  Status WriteKey(FileSystem& files, const std::string& folder) const;
  // Restores a stored run's privacy, with its key and its earlier attempts. Errors as Create and NoiseKey::Read.
  static StatusOr<std::unique_ptr<RunPrivacy>> Resume(const Scenario& scenario, const RunParts& parts,
                                                      double fixed_share, FileSystem& files, const std::string& folder,
                                                      const std::vector<RoundRow>& rows);

  // Added by the server; null: each client adds its own.
  const privacy::SumNoise* noise() const { return noise_ ? &*noise_ : nullptr; }
  bool samples() const { return attempt_.sampled(); }  // whether amplification by sampling is claimed
  const std::shared_ptr<const privacy::NoiseKey>& key() const { return key_; }

  // Charges one more training attempt. Gives the spend for its row.
  StatusOr<RoundSpend> Charge();
  // The reason why no attempt may follow; "": one may.
  StatusOr<std::string> Exhausted();

  // The privacy part of a version's record: its attempt's noise and the run's spend. `clip`: the bound of its updates.
  records::RecordedPrivacy Recorded(const RoundSpend& spend, double clip) const;
  double clip() const { return clip_; }  // the bound of a run without adaptive clipping

  // The sentence about privacy that is logged when the run begins.
  std::string Sentence() const;

 private:
  static StatusOr<std::unique_ptr<RunPrivacy>> With(std::shared_ptr<const privacy::NoiseKey> key,
                                                    const Scenario& scenario, const RunParts& parts,
                                                    double fixed_share);
  // The spend of all attempts so far and `more`.
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
  privacy::NoisedRounds attempt_;  // one attempt of this run
  privacy::SpendBook book_;
  // The spend after one more attempt, once computed: the accountant needs tens of milliseconds.
  std::optional<privacy::SpendBook::Epsilons> next_;
  double epsilon_;  // 0: no budget
  double clip_;
  bool seeded_;
  int64_t separation_;
};

}  // namespace rivulet

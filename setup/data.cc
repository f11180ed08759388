#include "setup/data.h"

#include "engine/base/file_system.h"
#include "engine/datasets/synth_digits.h"

namespace rivulet {

Status PrepareData(const Scenario& scenario, const DataProgress& progress) {
  FileSystem& files = FileSystem::Default();
  const DataConfig& data = scenario.data;
  if (data.train.empty()) {
    return InvalidArgument(
        "{} gives no data.train; name a TFRecord file, or give data.synth.kind to have data generated", scenario.path);
  }
  const bool train_missing = !files.Exists(data.train);
  const bool test_missing = !data.test.empty() && !files.Exists(data.test);
  if (!train_missing && !test_missing) return absl::OkStatus();
  if (data.synth.kind.empty()) {
    return NotFound("{}: no such file; {} names it, and no data.synth says how to generate it",
                    train_missing ? data.train : data.test, train_missing ? "data.train" : "data.test");
  }
  const SynthDigitsOptions options{data.synth.writers, data.synth.test_writers, data.synth.examples_per_writer,
                                   data.synth.seed};
  RIVULET_RETURN_IF_ERROR(files.CreateFolders(FolderOf(data.train)));
  if (!data.test.empty()) RIVULET_RETURN_IF_ERROR(files.CreateFolders(FolderOf(data.test)));
  return WriteSynthDigits(files, options, train_missing ? data.train : "", test_missing ? data.test : "", progress);
}

}  // namespace rivulet

#include "setup/data.h"

#include "engine/base/file_system.h"
#include "engine/data/record_files.h"
#include "setup/generators/generator.h"

namespace rivulet {

Status PrepareData(const Scenario& scenario, const DataProgress& progress) {
  FileSystem& files = FileSystem::Default();
  const DataConfig& data = scenario.data;
  if (data.train.empty()) {
    return InvalidArgument(
        "{} gives no data.train; name a TFRecord file, or give data.synth.kind to have data generated", scenario.path);
  }
  const Status train = RecordFilesMatching(data.train).status();
  const Status test = data.test.empty() ? absl::OkStatus() : RecordFilesMatching(data.test).status();
  const bool train_missing = !train.ok(), test_missing = !test.ok();
  if (!train_missing && !test_missing) return absl::OkStatus();
  const std::string& missing = train_missing ? data.train : data.test;
  if (data.synth.kind.empty()) {
    return NotFound("{}; {} names it, and no data.synth says how to generate it", Message(train_missing ? train : test),
                    train_missing ? "data.train" : "data.test");
  }
  if (IsFilePattern(missing)) {
    return InvalidArgument("'{}' is a pattern that no file matches, and data.synth generates one file; give its name",
                           missing);
  }
  RIVULET_ASSIGN_OR_RETURN(const Generator* const generator, FindGenerator(data.synth.kind));
  const SettingTable table = {.settings = generator->settings};
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, ReadOwn(table, data.synth.settings, "data.synth"));
  RIVULET_RETURN_IF_ERROR(files.CreateFolders(FolderOf(data.train)));
  if (!data.test.empty()) RIVULET_RETURN_IF_ERROR(files.CreateFolders(FolderOf(data.test)));
  return generator->write({settings, files, train_missing ? data.train : "", test_missing ? data.test : "", progress});
}

}  // namespace rivulet

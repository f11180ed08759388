#include "setup/data.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/nearest.h"
#include "engine/data/record_files.h"
#include "setup/generators/generator.h"

namespace rivulet {
namespace {

std::string FileOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// " Did you mean …?" of the record files beside a missing one, but for the file `other`.
std::string NearestRecords(FileSystem& files, const std::string& missing, const std::string& other) {
  auto names = files.List(FolderOf(missing));
  if (!names.ok()) return "";
  std::erase_if(*names, [&](const std::string& name) { return !name.ends_with(".tfrecord") || name == FileOf(other); });
  return DidYouMean(FileOf(missing), *names);
}

bool IsGiven(const Scenario& scenario, const std::string& key) { return scenario.given.contains(key); }

bool IsOverride(const Scenario& scenario, const std::string& key) {
  const auto given = scenario.given.find(key);
  return given != scenario.given.end() && given->second;
}

// Whether a missing data.train, given in a file beside data.test, looks like own data under a wrong name: the training
// set would be generated in another folder than the test set, or beside records of nearly its name.
bool LooksMistyped(FileSystem& files, const Scenario& scenario) {
  const DataConfig& data = scenario.data;
  if (!IsGiven(scenario, "data.train") || !IsGiven(scenario, "data.test") || data.test.empty()) return false;
  if (IsOverride(scenario, "data.train") || IsOverride(scenario, "data.test")) return false;
  return FolderOf(data.train) != FolderOf(data.test) || !NearestRecords(files, data.train, data.test).empty();
}

}  // namespace

bool TrainsOnOwnData(const Scenario& scenario) {
  if (!IsGiven(scenario, "data.train")) return false;
  if (scenario.data.test.empty()) return true;
  if (!IsOverride(scenario, "data.train")) return false;
  return std::ranges::none_of(scenario.given,
                              [](const auto& key) { return key.second && key.first.starts_with("data.synth."); });
}

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
    return NotFound("{}; {} names it, and there is no data.synth to generate it", Message(train_missing ? train : test),
                    train_missing ? "data.train" : "data.test");
  }
  if (IsFilePattern(missing)) {
    return InvalidArgument("'{}' is a pattern that no file matches, and data.synth generates one file; give its name",
                           missing);
  }
  if (train_missing && (TrainsOnOwnData(scenario) || LooksMistyped(files, scenario))) {
    return NotFound("{}; data.train names it, and data.synth generates no data under a name that was given.{}",
                    Message(train), NearestRecords(files, data.train, data.test));
  }
  if (!train_missing && IsGiven(scenario, "data.train")) {
    return NotFound(
        "{}; data.test names it, and data.synth generates no test set beside the training data of data.train.{} Name "
        "the "
        "test set of these data, or set data.test to \"\" for none",
        Message(test), NearestRecords(files, data.test, data.train));
  }
  RIVULET_ASSIGN_OR_RETURN(const Generator* const generator, FindGenerator(data.synth.kind));
  const SettingTable table = {.settings = generator->settings};
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, ReadOwn(table, data.synth.settings, "data.synth"));
  RIVULET_RETURN_IF_ERROR(files.CreateFolders(FolderOf(data.train)));
  if (!data.test.empty()) RIVULET_RETURN_IF_ERROR(files.CreateFolders(FolderOf(data.test)));
  return generator->write({settings, files, train_missing ? data.train : "", test_missing ? data.test : "", progress});
}

}  // namespace rivulet

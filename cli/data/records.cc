// rivulet data inspect and verify: content of TFRecord files, and their integrity.
#include <fmt/format.h>

#include <memory>

#include "cli/data/commands.h"
#include "cli/long_work.h"
#include "engine/base/file_system.h"
#include "engine/data/inspect.h"
#include "engine/datasets/class_names.h"

namespace rivulet {
namespace {

struct InspectOptions {
  std::string file, label;
  bool json = false;
};

Status Inspect(const InspectOptions& options) {
  FileSummary summary;
  {
    LongWork work("reading " + options.file);
    RIVULET_ASSIGN_OR_RETURN(summary, InspectRecords(options.file, options.label, work.progress()));
  }
  if (summary.label_feature == "label") summary.label_names = ClassNamesBeside(FileSystem::Default(), options.file);
  fmt::print("{}", options.json ? ToJson(summary) + "\n" : ToText(summary));
  return absl::OkStatus();
}

}  // namespace

Command DataInspectCommand() {
  auto options = std::make_shared<InspectOptions>();
  Command command{.name = "inspect",
                  .summary = "Summarise a TFRecord file: examples, features with types and shapes, labels and bytes.",
                  .example = "rivulet data inspect mnist/train.tfrecord"};
  command.Positional("FILE", &options->file, "a TFRecord file, plain, GZIP or ZLIB")
      .Option("--label", "FEATURE", &options->label, "count the values of this feature [label]")
      .Flag("--json", &options->json, "print one JSON object");
  command.run = [options] { return Inspect(*options); };
  return command;
}

namespace {

struct VerifyOptions {
  std::vector<std::string> files;
};

// Reports every file, good or bad; the error is that of a single bad one, or gives their number.
Status Verify(const VerifyOptions& options) {
  std::vector<Status> bad;
  for (const std::string& file : options.files) {
    LongWork work("reading " + file);
    const auto verified = VerifyRecords(file, work.progress());
    if (absl::IsCancelled(verified.status())) return verified.status();
    if (!verified.ok()) {
      bad.push_back(verified.status());
      if (options.files.size() > 1) fmt::print(stderr, "{}\n", OneLine(Message(verified.status())));
    } else {
      fmt::print("{}: {} records, {} bytes, every checksum right\n", file, verified->records, verified->bytes);
    }
  }
  if (bad.empty()) return absl::OkStatus();
  if (options.files.size() == 1) return bad[0];
  return DataLoss("{} of {} files are bad", bad.size(), options.files.size());
}

}  // namespace

Command DataVerifyCommand() {
  auto options = std::make_shared<VerifyOptions>();
  Command command{.name = "verify",
                  .summary = "Check every checksum of TFRecord files; exit 1 if one is wrong.",
                  .example = "rivulet data verify mnist/train.tfrecord mnist/test.tfrecord"};
  command.Positional("FILE", &options->files, "TFRecord files, plain, GZIP or ZLIB");
  command.run = [options] { return Verify(*options); };
  return command;
}

}  // namespace rivulet

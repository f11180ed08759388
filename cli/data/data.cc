// rivulet data: makes, looks at and checks data sets.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/long_work.h"
#include "cli/run/options.h"
#include "cli/run/prepare_data.h"
#include "engine/data/inspect.h"
#include "engine/datasets/cifar10.h"
#include "engine/datasets/mnist.h"
#include "engine/datasets/shakespeare.h"
#include "engine/datasets/synth_digits.h"
#include "setup/partition_files.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

// data import

struct ImportOptions {
  std::string from, out;
};

Status ImportFromMnist(const ImportOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const MnistCounts counts, ImportMnist(FileSystem::Default(), options.from, options.out,
                                                                 LongWork("importing " + options.from).progress()));
  fmt::print("{}: {} examples\n", JoinPath(options.out, "train.tfrecord"), counts.train);
  fmt::print("{}: {} examples\n", JoinPath(options.out, "test.tfrecord"), counts.test);
  return absl::OkStatus();
}

Status ImportFromCifar10(const ImportOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const Cifar10Counts counts, ImportCifar10(FileSystem::Default(), options.from, options.out,
                                                                     LongWork("importing " + options.from).progress()));
  fmt::print("{}: {} examples\n", JoinPath(options.out, "train.tfrecord"), counts.train);
  fmt::print("{}: {} examples\n", JoinPath(options.out, "test.tfrecord"), counts.test);
  return absl::OkStatus();
}

Status ImportFromShakespeare(const ImportOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const ShakespeareCounts counts,
                           ImportShakespeare(FileSystem::Default(), options.from, options.out,
                                             LongWork("importing " + options.from).progress()));
  fmt::print("{}: {} examples of {} speakers\n", JoinPath(options.out, "train.tfrecord"), counts.train,
             counts.speakers);
  fmt::print("{}: {} examples\n", JoinPath(options.out, "test.tfrecord"), counts.test);
  return absl::OkStatus();
}

Command DataImportCommand() {
  auto options = std::make_shared<ImportOptions>();
  Command mnist{.name = "mnist",
                .summary = "MNIST's four IDX files, raw or .gz, as train.tfrecord and test.tfrecord.",
                .example = "rivulet data import mnist --from mnist --out mnist"};
  mnist.Required("--from", "DIR", &options->from, "the folder of train-images-idx3-ubyte and the other three")
      .Required("--out", "DIR", &options->out, "the folder to write to");
  mnist.run = [options] { return ImportFromMnist(*options); };
  Command cifar10{.name = "cifar10",
                  .summary = "CIFAR-10's binary version, raw or .gz, as train.tfrecord and test.tfrecord.",
                  .example = "rivulet data import cifar10 --from cifar-10-batches-bin --out cifar10"};
  cifar10.Required("--from", "DIR", &options->from, "the folder of data_batch_1.bin and the others, and test_batch.bin")
      .Required("--out", "DIR", &options->out, "the folder to write to");
  cifar10.run = [options] { return ImportFromCifar10(*options); };
  Command command{.name = "import",
                  .summary = "Turn a data set's original files into TFRecord files.",
                  .example = "rivulet data import mnist --from mnist --out mnist"};
  Command shakespeare{.name = "shakespeare",
                      .summary = "Plays as plain text, in windows of 80 characters by speaker.",
                      .example = "rivulet data import shakespeare --from input.txt --out shakespeare"};
  shakespeare.Required("--from", "FILE", &options->from, "speeches between blank lines, each begun by a line SPEAKER:")
      .Required("--out", "DIR", &options->out, "the folder to write to");
  shakespeare.run = [options] { return ImportFromShakespeare(*options); };
  command.subcommands.push_back(std::move(mnist));
  command.subcommands.push_back(std::move(cifar10));
  command.subcommands.push_back(std::move(shakespeare));
  return command;
}

// data synth

struct SynthOptions {
  std::string out;
  std::optional<int64_t> writers = 100, test_writers, examples_per_writer = 60, seed = 1;
};

Status SynthDigits(const SynthOptions& options) {
  SynthDigitsOptions digits;
  digits.writers = *options.writers;
  digits.test_writers = options.test_writers.value_or((digits.writers + 4) / 5);
  digits.examples_per_writer = *options.examples_per_writer;
  digits.seed = static_cast<uint64_t>(*options.seed);
  FileSystem& fs = FileSystem::Default();
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(options.out));
  const std::string train = JoinPath(options.out, "train.tfrecord"), test = JoinPath(options.out, "test.tfrecord");
  {
    LongWork work("drawing digits");
    RIVULET_RETURN_IF_ERROR(WriteSynthDigits(fs, digits, train, test, work.progress()));
  }
  fmt::print("{}: {} examples of {} writers\n", train, digits.writers * digits.examples_per_writer, digits.writers);
  fmt::print("{}: {} examples of {} other writers\n", test, digits.test_writers * digits.examples_per_writer,
             digits.test_writers);
  return absl::OkStatus();
}

Command SynthCommand() {
  auto options = std::make_shared<SynthOptions>();
  Command digits{.name = "digits",
                 .summary = "Draw handwritten-like digits by writers with hands of their own.",
                 .example = "rivulet data synth digits --writers 100 --examples-per-writer 60 --seed 1 --out digits"};
  digits.Option("--writers", "N", &options->writers, "writers of train.tfrecord [100]")
      .Option("--test-writers", "N", &options->test_writers, "other writers, of test.tfrecord [a fifth of --writers]")
      .Option("--examples-per-writer", "M", &options->examples_per_writer, "examples of each [60]")
      .Option("--seed", "S", &options->seed, "everything follows from it [1]", {.min = 0})
      .Required("--out", "DIR", &options->out, "the folder to write to");
  digits.run = [options] { return SynthDigits(*options); };
  Command command{.name = "synth",
                  .summary = "Make data sets that need no download.",
                  .example = "rivulet data synth digits --writers 100 --examples-per-writer 60 --seed 1 --out digits"};
  command.subcommands = {std::move(digits)};
  return command;
}

// data partition

struct PartitionCommandOptions {
  ScenarioOptions run;
  std::string out;
};

// A client's DIR/*.tfrecord would take in whatever else lies there.
Status RefuseOtherRecords(FileSystem& fs, const std::string& folder, const Shares& shares) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(folder));
  for (const std::string& name : names) {
    constexpr std::string_view kSuffix = ".tfrecord";
    if (!name.ends_with(kSuffix)) continue;
    if (!shares.Find(std::string_view(name).substr(0, name.size() - kSuffix.size()))) {
      return AlreadyExists(
          "{} holds '{}', which is no client of this partition and could be taken for one; give an empty folder",
          folder, name);
    }
  }
  return absl::OkStatus();
}

Status WriteClients(const PartitionCommandOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.run));
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(scenario));
  RunSetup setup(std::move(scenario));
  RIVULET_ASSIGN_OR_RETURN(const auto data, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  FileSystem& fs = FileSystem::Default();
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(options.out));
  RIVULET_RETURN_IF_ERROR(RefuseOtherRecords(fs, options.out, *shares));
  {
    LongWork work("writing clients");
    RIVULET_RETURN_IF_ERROR(WritePartitionFiles(fs, *data, *shares, options.out, work.progress()).status());
  }
  fmt::print("{}: {} examples for {} clients\n", options.out, shares->examples(), shares->size());
  return absl::OkStatus();
}

Command PartitionCommand() {
  auto options = std::make_shared<PartitionCommandOptions>();
  Command command{.name = "partition",
                  .summary = "Write the training data of each client of a scenario to DIR/<client_id>.tfrecord.",
                  .example = "rivulet data partition simulations/scenarios/quickstart.toml --out clients"};
  command.Positional("SCENARIO.toml", &options->run.scenario, "whose data set and partition to write")
      .Repeated("--set", "KEY=VALUE", &options->run.sets,
                "set a key of the scenario, such as data.partition.clients=5; repeatable")
      .Required("--out", "DIR", &options->out, "the folder to write to");
  command.run = [options] { return WriteClients(*options); };
  return command;
}

// data inspect

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
  fmt::print("{}", options.json ? ToJson(summary) + "\n" : ToText(summary));
  return absl::OkStatus();
}

Command InspectCommand() {
  auto options = std::make_shared<InspectOptions>();
  Command command{.name = "inspect",
                  .summary = "Tell a TFRecord file's examples, features with types and shapes, labels and bytes.",
                  .example = "rivulet data inspect mnist/train.tfrecord"};
  command.Positional("FILE", &options->file, "a TFRecord file, plain, GZIP or ZLIB")
      .Option("--label", "FEATURE", &options->label, "the feature whose values are counted [label]")
      .Flag("--json", &options->json, "print one JSON object");
  command.run = [options] { return Inspect(*options); };
  return command;
}

// data verify

struct VerifyOptions {
  std::vector<std::string> files;
};

// Tells of every file, good or bad; the error is the only bad one's, or says how many there are.
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

Command VerifyCommand() {
  auto options = std::make_shared<VerifyOptions>();
  Command command{.name = "verify",
                  .summary = "Check every checksum of TFRecord files; exit 1 when one is wrong.",
                  .example = "rivulet data verify mnist/train.tfrecord mnist/test.tfrecord"};
  command.Positional("FILE", &options->files, "TFRecord files, plain, GZIP or ZLIB");
  command.run = [options] { return Verify(*options); };
  return command;
}

const RegisterCommand kData(50, [] {
  Command data{.name = "data",
               .summary = "Make, look at and check data sets.",
               .example = "rivulet data inspect mnist/train.tfrecord"};
  data.subcommands.push_back(DataImportCommand());
  data.subcommands.push_back(SynthCommand());
  data.subcommands.push_back(PartitionCommand());
  data.subcommands.push_back(InspectCommand());
  data.subcommands.push_back(VerifyCommand());
  return data;
});

}  // namespace
}  // namespace rivulet

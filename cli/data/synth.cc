// rivulet data synth: data sets that need no download.
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "cli/data/commands.h"
#include "cli/long_work.h"
#include "engine/base/file_system.h"
#include "engine/datasets/synth_digits.h"
#include "engine/datasets/synthetic.h"
#include "engine/io/new_folder.h"

namespace rivulet {
namespace {

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
  RIVULET_ASSIGN_OR_RETURN(const auto folder, NewFolder::Create(fs, options.out));
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

// The command line has no option type for real numbers.
StatusOr<double> RealNumber(std::string_view option, const std::string& given, double otherwise) {
  if (given.empty()) return otherwise;
  double value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (error != std::errc() || end != given.data() + given.size())
    return UsageError("{} is '{}'; give a number", option, given);
  return value;
}

void TellSynthesised(const std::string& out, int64_t train, int64_t test) {
  fmt::print("{}: {} examples\n", JoinPath(out, "train.tfrecord"), train);
  fmt::print("{}: {} examples\n", JoinPath(out, "test.tfrecord"), test);
}

struct SyntheticCommandOptions {
  std::string out, alpha, beta;
  std::optional<int64_t> clients = 30, seed = 1;
  bool iid = false;
};

Status Synthesise(const SyntheticCommandOptions& options) {
  SyntheticOptions synthetic{
      .clients = *options.clients, .iid = options.iid, .seed = static_cast<uint64_t>(*options.seed)};
  RIVULET_ASSIGN_OR_RETURN(synthetic.alpha, RealNumber("--alpha", options.alpha, 0));
  RIVULET_ASSIGN_OR_RETURN(synthetic.beta, RealNumber("--beta", options.beta, 0));
  if (options.iid && (synthetic.alpha != 0))
    return UsageError("--iid gives all clients one model, so --alpha has no effect");
  RIVULET_ASSIGN_OR_RETURN(const SyntheticCounts counts, WriteSynthetic(FileSystem::Default(), synthetic, options.out,
                                                                        LongWork("drawing clients").progress()));
  TellSynthesised(options.out, counts.train, counts.test);
  return absl::OkStatus();
}

Command SynthSyntheticCommand() {
  auto options = std::make_shared<SyntheticCommandOptions>();
  Command command{.name = "synthetic",
                  .summary = "Generate FedProx' synthetic(alpha, beta): clients with different models and data.",
                  .example = "rivulet data synth synthetic --alpha 1 --beta 1 --clients 30 --seed 1 --out synthetic"};
  command
      .Option("--alpha", "X", &options->alpha,
              "deviation of the mean of a client's model; by its definition it changes no label [0]")
      .Option("--beta", "X", &options->beta, "deviation between clients' data [0]")
      .Flag("--iid", &options->iid, "use one model for all clients")
      .Option("--clients", "N", &options->clients, "number of clients [30]", {.max = 100000})
      .Option("--seed", "S", &options->seed, "seed of all draws [1]", {.min = 0})
      .Required("--out", "DIR", &options->out, "the folder to write to");
  command.run = [options] { return Synthesise(*options); };
  return command;
}

struct BlobCommandOptions {
  std::string out, deviation;
  std::optional<int64_t> classes = 3, features = 2, examples = 1000, test_examples = 200, seed = 1;
};

Status SynthesiseBlobs(const BlobCommandOptions& options) {
  BlobOptions blobs{.classes = *options.classes,
                    .features = *options.features,
                    .examples = *options.examples,
                    .test_examples = *options.test_examples,
                    .seed = static_cast<uint64_t>(*options.seed)};
  RIVULET_ASSIGN_OR_RETURN(blobs.deviation, RealNumber("--deviation", options.deviation, 1));
  RIVULET_RETURN_IF_ERROR(WriteBlobs(FileSystem::Default(), blobs, options.out, LongWork("drawing blobs").progress()));
  TellSynthesised(options.out, blobs.examples, blobs.test_examples);
  return absl::OkStatus();
}

Command SynthBlobsCommand() {
  auto options = std::make_shared<BlobCommandOptions>();
  Command command{.name = "blobs",
                  .summary = "Generate Gaussian blobs: examples around a centre for each class.",
                  .example = "rivulet data synth blobs --classes 5 --features 20 --examples 1000 --out blobs"};
  command.Option("--classes", "N", &options->classes, "number of blobs [3]")
      .Option("--features", "N", &options->features, "features of an example [2]")
      .Option("--examples", "N", &options->examples, "examples in train.tfrecord [1000]")
      .Option("--test-examples", "N", &options->test_examples,
              "examples in test.tfrecord, around the same centres [200]")
      .Option("--deviation", "X", &options->deviation, "deviation in each direction; centres are within 10 of 0 [1]")
      .Option("--seed", "S", &options->seed, "seed of all draws [1]", {.min = 0})
      .Required("--out", "DIR", &options->out, "the folder to write to");
  command.run = [options] { return SynthesiseBlobs(*options); };
  return command;
}

}  // namespace

Command DataSynthCommand() {
  auto options = std::make_shared<SynthOptions>();
  Command digits{.name = "digits",
                 .summary = "Generate handwritten-like digits by writers with different styles.",
                 .example = "rivulet data synth digits --writers 100 --examples-per-writer 60 --seed 1 --out digits"};
  digits.Option("--writers", "N", &options->writers, "writers in train.tfrecord [100]")
      .Option("--test-writers", "N", &options->test_writers, "other writers, in test.tfrecord [a fifth of --writers]")
      .Option("--examples-per-writer", "M", &options->examples_per_writer, "examples of each writer [60]")
      .Option("--seed", "S", &options->seed, "seed of all draws [1]", {.min = 0})
      .Required("--out", "DIR", &options->out, "the folder to write to");
  digits.run = [options] { return SynthDigits(*options); };
  Command command{.name = "synth",
                  .summary = "Generate data sets that need no download.",
                  .example = "rivulet data synth digits --writers 100 --examples-per-writer 60 --seed 1 --out digits"};
  command.subcommands = {std::move(digits), SynthSyntheticCommand(), SynthBlobsCommand()};
  return command;
}

}  // namespace rivulet

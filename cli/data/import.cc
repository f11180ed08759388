// rivulet data import: other programs' files as TFRecord files.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "cli/data/commands.h"
#include "cli/data/first_scenario.h"
#include "cli/data/imported.h"
#include "cli/long_work.h"
#include "engine/base/file_system.h"
#include "engine/datasets/arrays.h"
#include "engine/datasets/characters.h"
#include "engine/datasets/cifar10.h"
#include "engine/datasets/cifar100.h"
#include "engine/datasets/image_folder.h"
#include "engine/datasets/leaf.h"
#include "engine/datasets/mnist.h"
#include "engine/datasets/shakespeare.h"
#include "engine/datasets/text.h"

namespace rivulet {
namespace {

struct ImportOptions {
  std::string from, out;
};

// The common parts of imports of a folder of original files.
template <typename Import>
Command ImportOfFolder(std::string name, std::string summary, std::string example, std::string files, Import import) {
  auto options = std::make_shared<ImportOptions>();
  Command command{.name = std::move(name), .summary = std::move(summary), .example = std::move(example)};
  command.Required("--from", "DIR", &options->from, std::move(files))
      .Required("--out", "DIR", &options->out, "the folder to write to");
  command.run = [options, import]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const auto counts, import(FileSystem::Default(), options->from, options->out,
                                                       LongWork("importing " + options->from).progress()));
    TellImported(options->out, "train", counts.train);
    TellImported(options->out, "test", counts.test);
    return absl::OkStatus();
  };
  return command;
}

Status ImportFromShakespeare(const ImportOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const ShakespeareCounts counts,
                           ImportShakespeare(FileSystem::Default(), options.from, options.out,
                                             LongWork("importing " + options.from).progress()));
  TellImported(options.out, "train", counts.train, fmt::format(" of {} speakers", counts.speakers));
  TellImported(options.out, "test", counts.test);
  return WriteFirstScenario({.folder = options.out,
                             .has_test = true,
                             .examples = counts.train,
                             .key = "speaker",
                             .model = "preset = \"char_lstm\"\n"});
}

Command ImportShakespeareCommand() {
  auto options = std::make_shared<ImportOptions>();
  Command shakespeare{.name = "shakespeare",
                      .summary = "Import plays as plain text, in windows of 80 characters by speaker.",
                      .example = "rivulet data import shakespeare --from input.txt --out shakespeare"};
  shakespeare.Required("--from", "FILE", &options->from, "speeches between blank lines, each begun by a line SPEAKER:")
      .Required("--out", "DIR", &options->out, "the folder to write to");
  shakespeare.run = [options] { return ImportFromShakespeare(*options); };
  return shakespeare;
}

// For pixels of unknown shape: a square with one channel or three, else a row.
std::string PixelModel(int64_t values, int64_t classes) {
  for (const int64_t channels : {1, 3}) {
    const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(values / channels))));
    if (side * side * channels == values) return ImageModel(side, side, channels, classes);
  }
  return ImageModel(1, values, 1, classes);
}

Status ImportFromLeaf(const LeafOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const LeafCounts counts, ImportLeaf(FileSystem::Default(), options,
                                                               LongWork("importing " + options.from).progress()));
  TellImported(options.out, "train", counts.train, fmt::format(" of {} users", counts.train_users));
  if (counts.has_test) TellImported(options.out, "test", counts.test, fmt::format(" of {} users", counts.test_users));
  if (counts.feature == "tokens" && counts.values != kWindowLength) return absl::OkStatus();  // no preset fits these
  FirstScenario first{.folder = options.out, .has_test = counts.has_test, .examples = counts.train, .key = "user"};
  first.model = counts.feature == "tokens"  ? "preset = \"char_lstm\"\n"
                : counts.feature == "image" ? PixelModel(counts.values, counts.classes)
                                            : LinearModel(counts.values, counts.classes);
  if (counts.feature == "features") first.input_feature = counts.feature;
  return WriteFirstScenario(first);
}

Command ImportLeafCommand() {
  auto options = std::make_shared<LeafOptions>();
  Command leaf{.name = "leaf",
               .summary = "Import LEAF's JSON (FEMNIST, Shakespeare, the synthetic sets), a client per user.",
               .example = "rivulet data import leaf --from leaf/data/femnist/data --pixels --out femnist"};
  leaf.Required("--from", "DIR", &options->from, "the folder with train/ and test/, or with *.json; or one file")
      .Required("--out", "DIR", &options->out, "the folder to write to")
      .Flag("--pixels", &options->pixels, "treat numbers as pixels from 0 to 1 and write images of bytes");
  leaf.run = [options] { return ImportFromLeaf(*options); };
  return leaf;
}

Status ImportFromArrays(const ArrayOptions& arrays) {
  RIVULET_ASSIGN_OR_RETURN(const ArrayCounts counts, ImportArrays(FileSystem::Default(), arrays,
                                                                  LongWork("importing " + arrays.from).progress()));
  TellImported(arrays.out, "train", counts.train, fmt::format(" of {} values", counts.values));
  if (counts.test > 0) TellImported(arrays.out, "test", counts.test);
  if (counts.feature == "tokens") return absl::OkStatus();  // of unknown vocabulary size
  FirstScenario first{.folder = arrays.out, .has_test = counts.test > 0, .examples = counts.train};
  if (counts.feature == "features") {
    first.input_feature = counts.feature;
    first.model = LinearModel(counts.values, counts.classes);
  } else if (counts.shape.size() == 2 || counts.shape.size() == 3) {
    first.model =
        ImageModel(counts.shape[0], counts.shape[1], counts.shape.size() == 3 ? counts.shape[2] : 1, counts.classes);
  } else {
    first.model = PixelModel(counts.values, counts.classes);
  }
  return WriteFirstScenario(first);
}

Command ImportArraysCommand() {
  auto options = std::make_shared<Divided<ArrayOptions>>();
  Command numpy{.name = "numpy",
                .summary = "Import NumPy's arrays: x_train, y_train, x_test and y_test, or x and y.",
                .example = "rivulet data import numpy --from mnist.npz --out mnist"};
  numpy.Required("--from", "FILE.npz", &options->options.from, "the arrays, or a folder of .npy files")
      .Required("--out", "DIR", &options->options.out, "the folder to write to")
      .Option("--test-every", "N", &options->test_every, "use every Nth row for the test [none]", {.min = 2});
  numpy.run = [options] { return ImportFromArrays(options->Complete()); };
  return numpy;
}

Status ImportFromImages(const ImageFolderOptions& images) {
  RIVULET_ASSIGN_OR_RETURN(
      const ImageFolderCounts counts,
      ImportImageFolder(FileSystem::Default(), images, LongWork("importing " + images.from).progress()));
  TellImported(images.out, "train", counts.train,
               fmt::format(" of {} classes, {} × {} pixels in {}", counts.classes.size(), counts.width, counts.height,
                           images.grey ? "grey" : "colour"));
  if (counts.test > 0) TellImported(images.out, "test", counts.test);
  fmt::print("{}: the classes in the order of their labels\n", JoinPath(images.out, "classes.txt"));
  return WriteFirstScenario(
      {.folder = images.out,
       .has_test = counts.test > 0,
       .examples = counts.train,
       .model = ImageModel(counts.height, counts.width, images.grey ? 1 : 3, std::ssize(counts.classes))});
}

Command ImportImagesCommand() {
  auto options = std::make_shared<Divided<ImageFolderOptions>>();
  Command images{.name = "images",
                 .summary = "Import folders of PNG and JPEG images, one for each class.",
                 .example = "rivulet data import images --from leaves --test-every 10 --out leaves-records"};
  images.Required("--from", "DIR", &options->options.from, "a folder of classes, or of train/ and test/ with classes")
      .Required("--out", "DIR", &options->options.out, "the folder to write to")
      .Flag("--grey", &options->options.grey, "write one channel instead of red, green and blue")
      .Option("--test-every", "N", &options->test_every, "use every Nth image of a class for the test [none]",
              {.min = 2});
  images.run = [options] { return ImportFromImages(options->Complete()); };
  return images;
}

Status ImportFromText(const TextOptions& text) {
  RIVULET_ASSIGN_OR_RETURN(const TextCounts counts,
                           ImportText(FileSystem::Default(), text, LongWork("importing " + text.from).progress()));
  TellImported(text.out, "train", counts.train, fmt::format(" of {} sources", counts.sources));
  if (counts.test > 0) TellImported(text.out, "test", counts.test);
  return WriteFirstScenario({.folder = text.out,
                             .has_test = counts.test > 0,
                             .examples = counts.train,
                             .key = "source",
                             .model = "preset = \"char_lstm\"\n"});
}

Command ImportTextCommand() {
  auto options = std::make_shared<Divided<TextOptions>>();
  Command text{.name = "text",
               .summary = "Import plain text in windows of 80 characters, a source per file.",
               .example = "rivulet data import text --from letters --by-line --test-every 10 --out letters"};
  text.Required("--from", "FILE", &options->options.from, "a text, plain or .gz, or a folder of *.txt")
      .Required("--out", "DIR", &options->options.out, "the folder to write to")
      .Flag("--by-line", &options->options.by_line, "treat every line as a separate passage")
      .Option("--test-every", "N", &options->test_every, "use every Nth line, or window, for the test [none]",
              {.min = 2});
  text.run = [options] { return ImportFromText(options->Complete()); };
  return text;
}

}  // namespace

Command DataImportCommand() {
  Command command{.name = "import",
                  .summary = "Import a data set's original files as TFRecord files.",
                  .example = "rivulet data import mnist --from mnist --out mnist"};
  command.subcommands.push_back(
      ImportOfFolder("mnist", "MNIST's four IDX files, raw or .gz, as train.tfrecord and test.tfrecord.",
                     "rivulet data import mnist --from mnist --out mnist",
                     "the folder of train-images-idx3-ubyte and the other three", ImportMnist));
  command.subcommands.push_back(
      ImportOfFolder("cifar10", "CIFAR-10's binary version, raw or .gz, as train.tfrecord and test.tfrecord.",
                     "rivulet data import cifar10 --from cifar-10-batches-bin --out cifar10",
                     "the folder of data_batch_1.bin and the others, and test_batch.bin", ImportCifar10));
  command.subcommands.push_back(ImportOfFolder("cifar100",
                                               "CIFAR-100's binary version, raw or .gz, with both of its labels.",
                                               "rivulet data import cifar100 --from cifar-100-binary --out cifar100",
                                               "the folder of train.bin and test.bin", ImportCifar100));
  command.subcommands.push_back(ImportShakespeareCommand());
  command.subcommands.push_back(ImportLeafCommand());
  command.subcommands.push_back(ImportTableCommand());
  command.subcommands.push_back(ImportArraysCommand());
  command.subcommands.push_back(ImportImagesCommand());
  command.subcommands.push_back(ImportTextCommand());
  return command;
}

}  // namespace rivulet

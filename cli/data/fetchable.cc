#include "cli/data/fetchable.h"

#include <fmt/format.h>

namespace rivulet {
namespace {

FetchableFile At(std::vector<std::string> folders, std::string name, int64_t bytes, std::string sha256) {
  for (std::string& folder : folders) folder += name;
  return {std::move(name), bytes, std::move(sha256), std::move(folders)};
}

FetchableSet Mnist() {
  const std::vector<std::string> folders = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                                            "https://storage.googleapis.com/cvdf-datasets/mnist/"};
  return {.name = "mnist",
          .about = "70,000 handwritten digits of 28 × 28 (LeCun, Cortes and Burges)",
          .pinned_by = "computed from the original files, whose MD5 are those that torchvision lists",
          .files = {At(folders, "train-images-idx3-ubyte.gz", 9'912'422,
                       "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                    At(folders, "train-labels-idx1-ubyte.gz", 28'881,
                       "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
                    At(folders, "t10k-images-idx3-ubyte.gz", 1'648'877,
                       "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                    At(folders, "t10k-labels-idx1-ubyte.gz", 4'542,
                       "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6")},
          .import = "mnist",
          .unpacked = "",
          .importer = "mnist"};
}

constexpr char kTensorFlowDatasets[] =
    "the list of the package tensorflow-datasets (tensorflow_datasets/url_checksums/{}.txt)";

FetchableSet FashionMnist() {
  const std::vector<std::string> folders = {
      "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
      "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"};
  return {.name = "fashion-mnist",
          .about = "70,000 pictures of clothes of 28 × 28, in MNIST's files (Xiao, Rasul and Vollgraf)",
          .pinned_by = fmt::format(kTensorFlowDatasets, "fashion_mnist"),
          .files = {At(folders, "train-images-idx3-ubyte.gz", 26'421'880,
                       "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
                    At(folders, "train-labels-idx1-ubyte.gz", 29'515,
                       "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
                    At(folders, "t10k-images-idx3-ubyte.gz", 4'422'102,
                       "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
                    At(folders, "t10k-labels-idx1-ubyte.gz", 5'148,
                       "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5")},
          .import = "mnist",
          .unpacked = "",
          .importer = "mnist"};
}

FetchableSet Cifar(std::string name, std::string about, int64_t bytes, std::string sha256, std::string unpacked) {
  const std::string file = fmt::format("cifar-{}-binary.tar.gz", name.substr(5));
  return {.name = name,
          .about = std::move(about),
          .pinned_by = fmt::format(kTensorFlowDatasets, name),
          .files = {At({"https://www.cs.toronto.edu/~kriz/"}, file, bytes, std::move(sha256))},
          .import = "",
          .unpacked = std::move(unpacked),
          .importer = name};
}

FetchableSet TinyShakespeare() {
  return {.name = "tinyshakespeare",
          .about = "1.1 MB of Shakespeare's plays, as char-rnn has them (Karpathy)",
          .pinned_by = "computed from the file",
          .files = {At({"https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"},
                       "input.txt", 1'115'394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed")},
          .import = "shakespeare",
          .unpacked = "",
          .importer = "shakespeare"};
}

}  // namespace

const std::vector<FetchableSet>& FetchableSets() {
  static const std::vector<FetchableSet> sets = {
      Cifar("cifar10", "60,000 pictures of 10 classes, 32 × 32 in colour (Krizhevsky)", 170'052'171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", "cifar-10-batches-bin"),
      Cifar("cifar100", "60,000 pictures of 100 classes, 32 × 32 in colour (Krizhevsky)", 168'513'733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", "cifar-100-binary"),
      FashionMnist(), Mnist(), TinyShakespeare()};
  return sets;
}

}  // namespace rivulet

#include "engine/datasets/synthetic.h"

#include <algorithm>
#include <cmath>

#include "engine/base/math.h"
#include "engine/base/sha256.h"
#include "engine/data/example.h"
#include "engine/datasets/new_dataset.h"

namespace rivulet {
namespace {

constexpr uint8_t kPurposeGenerate = 6;  // federated/random/streams.h, kSynthesize

// The stream of whoever is called `name`, as clients of a run have theirs.
Draws DrawsNamed(uint64_t seed, std::string_view name, uint32_t op) {
  std::array<char, 8> little_endian;
  for (size_t i = 0; i < 8; ++i) little_endian[i] = static_cast<char>(seed >> (8 * i));
  Sha256 hash;
  hash.Update(std::string_view(little_endian.data(), 8)).Update(name);
  const Digest digest = std::move(hash).Finish();
  PhiloxKey key;
  for (size_t i = 0; i < 8; ++i) key.words[i / 4] |= uint32_t{digest.bytes[i]} << (8 * (i % 4));
  return Draws(StreamKey{key, 0, 0, kPurposeGenerate}, op);
}

std::string UserName(int64_t number) { return fmt::format("f_{:05}", number); }

// Standard deviations of the features, j^-0.6.
const std::array<double, kSyntheticFeatures>& Deviations() {
  static const auto deviations = [] {
    std::array<double, kSyntheticFeatures> of;
    for (size_t j = 0; j < of.size(); ++j) of[j] = math::Exp(-0.6 * math::Log(static_cast<double>(j + 1)));
    return of;
  }();
  return deviations;
}

enum : uint32_t { kSyntheticModel = 0, kSyntheticSamples = 1, kBlobCentres = 2, kBlobTrain = 3, kBlobTest = 4 };

}  // namespace

SyntheticClient::SyntheticClient(const SyntheticOptions& options, int64_t number)
    : draws_(DrawsNamed(options.seed, UserName(number), kSyntheticSamples)) {
  Draws own = DrawsNamed(options.seed, UserName(number), kSyntheticModel);
  samples_ = 50 + static_cast<int64_t>(math::Exp(4 + 2 * own.Normal()));
  const double model_mean = options.alpha * own.Normal(), data_mean = options.beta * own.Normal();
  for (double& centre : centre_) centre = options.iid ? data_mean : data_mean + own.Normal();
  Draws shared = DrawsNamed(options.seed, "", kSyntheticModel);
  Draws& model = options.iid ? shared : own;
  const double mean = options.iid ? 0 : model_mean;
  for (auto& row : weights_)
    for (double& weight : row) weight = mean + model.Normal();
  for (double& bias : bias_) bias = mean + model.Normal();
}

SyntheticSample SyntheticClient::Next() {
  SyntheticSample sample;
  std::array<double, kSyntheticClasses> logits = bias_;
  for (size_t j = 0; j < kSyntheticFeatures; ++j) {
    const double value = centre_[j] + Deviations()[j] * draws_.Normal();
    sample.features[j] = static_cast<float>(value);
    for (size_t k = 0; k < kSyntheticClasses; ++k) logits[k] += value * weights_[j][k];
  }
  sample.label = std::max_element(logits.begin(), logits.end()) - logits.begin();
  return sample;
}

StatusOr<SyntheticCounts> WriteSynthetic(FileSystem& fs, const SyntheticOptions& options, const std::string& out,
                                         const DataProgress& progress) {
  if (options.clients < 1 || options.clients > 100'000)
    return InvalidArgument("{} clients cannot be numbered; give 1 to 100000", options.clients);
  for (const auto& [name, value] : {std::pair("alpha", options.alpha), {"beta", options.beta}})
    if (!(value >= 0) || !std::isfinite(value)) return InvalidArgument("{} is {}; give a number from 0", name, value);
  RIVULET_ASSIGN_OR_RETURN(const auto files, NewDataset::Create(fs, out, true));
  for (int64_t number = 0; number < options.clients; ++number) {
    if (progress) RIVULET_RETURN_IF_ERROR(progress(number, options.clients));
    SyntheticClient client(options, number);
    const int64_t learnt = client.samples() * 9 / 10;
    for (int64_t i = 0; i < client.samples(); ++i) {
      const SyntheticSample sample = client.Next();
      RIVULET_RETURN_IF_ERROR((i < learnt ? files->train() : files->test())
                                  .Append(ExampleBuilder()
                                              .Floats("features", sample.features)
                                              .Int64("label", sample.label)
                                              .Bytes("user", UserName(number))
                                              .Serialize()));
    }
  }
  const SyntheticCounts counts{files->train().records(), files->test().records()};
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

Status WriteBlobs(FileSystem& fs, const BlobOptions& options, const std::string& out, const DataProgress& progress) {
  constexpr int64_t kMaxClasses = 100'000, kMaxBlobFeatures = 1 << 20;
  if (options.classes < 1 || options.classes > kMaxClasses || options.features < 1 ||
      options.features > kMaxBlobFeatures || options.classes * options.features > (int64_t{1} << 26))
    return InvalidArgument(
        "{} classes of {} features: give 1 to {} classes and 1 to {} features, together at most 2^26", options.classes,
        options.features, kMaxClasses, kMaxBlobFeatures);
  if (options.examples < 1 || options.test_examples < 1)
    return InvalidArgument("{} examples and {} for the test; give at least 1 of each", options.examples,
                           options.test_examples);
  if (!(options.deviation >= 0) || !std::isfinite(options.deviation))
    return InvalidArgument("the deviation is {}; give a number from 0", options.deviation);
  const auto features = static_cast<size_t>(options.features);
  std::vector<double> centres(static_cast<size_t>(options.classes) * features);
  Draws of_centres = DrawsNamed(options.seed, "", kBlobCentres);
  for (double& centre : centres) centre = 20 * of_centres.Uniform() - 10;
  RIVULET_ASSIGN_OR_RETURN(const auto files, NewDataset::Create(fs, out, true));
  std::vector<float> values(features);
  const int64_t total = options.examples + options.test_examples;
  for (int64_t i = 0; i < total; ++i) {
    if (progress && i % 1024 == 0) RIVULET_RETURN_IF_ERROR(progress(i, total));
    const bool is_test = i >= options.examples;
    const int64_t number = is_test ? i - options.examples : i, label = number % options.classes;
    // A stream for each example, so that more examples leave the others as they are.
    Draws draws = DrawsNamed(options.seed, fmt::format("{}", number), is_test ? kBlobTest : kBlobTrain);
    for (size_t j = 0; j < features; ++j)
      values[j] =
          static_cast<float>(centres[static_cast<size_t>(label) * features + j] + options.deviation * draws.Normal());
    RIVULET_RETURN_IF_ERROR((is_test ? files->test() : files->train())
                                .Append(ExampleBuilder().Floats("features", values).Int64("label", label).Serialize()));
  }
  return files->Publish();
}

}  // namespace rivulet

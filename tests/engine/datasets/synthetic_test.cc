#include "engine/datasets/synthetic.h"

#include <cmath>

#include "engine/data/dataset.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

// Mean and variance of what is added.
struct Moments {
  double count = 0, sum = 0, squares = 0;
  void Add(double value) {
    ++count;
    sum += value;
    squares += value * value;
  }
  double mean() const { return sum / count; }
  double variance() const { return squares / count - mean() * mean(); }
};

// Within a client the features are independent normals of variance j^-1.2. The tolerances are four deviations of an
// estimate from 4,000 samples: of a mean σ/√n, of a variance σ²√(2/n).
TEST(SyntheticTest, FeaturesOfAClient_HaveTheirCovariance) {
  constexpr int kSamples = 4000;
  for (const bool iid : {false, true}) {
    SyntheticClient client({.alpha = 1, .beta = 1, .iid = iid, .seed = 5}, 3);
    std::array<Moments, kSyntheticFeatures> features;
    Moments product;  // of two neighbours, whose covariance is 0
    for (int i = 0; i < kSamples; ++i) {
      const SyntheticSample sample = client.Next();
      for (size_t j = 0; j < kSyntheticFeatures; ++j) features[j].Add(sample.features[j]);
      product.Add(sample.features[0] * sample.features[1]);
    }
    for (size_t j = 0; j < kSyntheticFeatures; ++j) {
      const double expected = std::pow(static_cast<double>(j + 1), -1.2);
      EXPECT_NEAR(features[j].variance() / expected, 1, 4 * std::sqrt(2.0 / kSamples)) << j;
      if (iid) {
        EXPECT_NEAR(features[j].mean(), features[0].mean(), 8 / std::sqrt(kSamples)) << j;
      }
    }
    EXPECT_NEAR(product.mean() - features[0].mean() * features[1].mean(), 0, 0.15);
  }
}

// Between clients the mean of a feature has variance beta² + 1, of which beta² is common to all features.
TEST(SyntheticTest, CentresOfClients_SpreadByBeta) {
  for (const double beta : {0.0, 2.0}) {
    Moments first, common;
    for (int64_t number = 0; number < 2000; ++number) {
      SyntheticClient client({.beta = beta, .seed = 9}, number);
      const SyntheticSample sample = client.Next();
      first.Add(sample.features[0]);
      double mean = 0;
      for (const float value : sample.features) mean += value / kSyntheticFeatures;
      common.Add(mean);
    }
    double within = 0;  // of the mean of the features: each has variance 1 + j^-1.2
    for (size_t j = 1; j <= kSyntheticFeatures; ++j) within += (1 + std::pow(static_cast<double>(j), -1.2)) / 3600;
    EXPECT_NEAR(first.variance() / (beta * beta + 2), 1, 0.13);
    EXPECT_NEAR(common.variance() / (beta * beta + within), 1, 0.13);
    EXPECT_NEAR(first.mean(), 0, 4 * std::sqrt((beta * beta + 2) / 2000));
  }
}

// 50 + exp(N(4, 4)): the logarithm of what is beyond 50 has mean 4 and deviation 2, but for being rounded down.
TEST(SyntheticTest, SamplesOfClients_AreLognormal) {
  Moments logs;
  int64_t below_median = 0;
  for (int64_t number = 0; number < 4000; ++number) {
    const int64_t beyond = SyntheticClient({.seed = 2}, number).samples() - 50;
    ASSERT_GE(beyond, 0);
    logs.Add(std::log(static_cast<double>(beyond) + 0.5));
    below_median += static_cast<double>(beyond) < std::floor(std::exp(4.0));
  }
  EXPECT_NEAR(logs.mean(), 4, 0.13);
  EXPECT_NEAR(std::sqrt(logs.variance()), 2, 0.1);
  EXPECT_NEAR(static_cast<double>(below_median) / 4000, 0.5, 0.035);
}

// With alpha = 0 and IID data one model labels all clients; otherwise clients' labels differ.
TEST(SyntheticTest, Labels_AreThoseOfTheClientsModel) {
  const auto shares = [](const SyntheticOptions& options, int64_t number) {
    SyntheticClient client(options, number);
    std::array<double, kSyntheticClasses> shares{};
    for (int i = 0; i < 2000; ++i) shares[static_cast<size_t>(client.Next().label)] += 1.0 / 2000;
    return shares;
  };
  const auto distance = [](const auto& a, const auto& b) {
    double sum = 0;
    for (size_t k = 0; k < a.size(); ++k) sum += std::abs(a[k] - b[k]) / 2;
    return sum;
  };
  const SyntheticOptions iid{.iid = true}, unlike{.alpha = 1, .beta = 1};
  EXPECT_LT(distance(shares(iid, 0), shares(iid, 1)), 0.08);
  EXPECT_GT(distance(shares(unlike, 0), shares(unlike, 1)), 0.3);
}

TEST(SyntheticTest, Alpha_MovesNoLabel) {
  SyntheticClient without({.beta = 1}, 7), with({.alpha = 3, .beta = 1}, 7);
  for (int i = 0; i < 500; ++i) {
    const SyntheticSample a = without.Next(), b = with.Next();
    EXPECT_EQ(a.features, b.features);
    EXPECT_EQ(a.label, b.label);
  }
}

class SyntheticFilesTest : public DataTest {};

TEST_F(SyntheticFilesTest, FilesOfAPrefix_AreThoseOfFewerClients) {
  const auto write = [&](int64_t clients, const std::string& out) {
    const auto counts = WriteSynthetic(FileSystem::Default(), {.clients = clients, .alpha = 1, .seed = 4}, Path(out));
    EXPECT_OK(counts);
    return *ReadRecords(Path(out + "/train.tfrecord"));
  };
  const auto few = write(2, "few"), more = write(3, "more");
  ASSERT_LT(few.size(), more.size());
  EXPECT_TRUE(std::equal(few.begin(), few.end(), more.begin()));
  std::vector<float> features(kSyntheticFeatures);
  ASSERT_OK(FindFloatFeature(few[0], "features", features));
  std::string_view user;
  ASSERT_OK(FindBytesFeature(more.back(), "user", &user));
  EXPECT_EQ(user, "f_00002");
  const int64_t samples =
      SyntheticClient({.alpha = 1, .seed = 4}, 0).samples() + SyntheticClient({.alpha = 1, .seed = 4}, 1).samples();
  EXPECT_NEAR(static_cast<double>(few.size()), 0.9 * static_cast<double>(samples), 2);
}

TEST_F(SyntheticFilesTest, Blobs_LieAroundTheirCentres) {
  ASSERT_OK(WriteBlobs(FileSystem::Default(), {.classes = 4, .features = 3, .examples = 4000, .test_examples = 4},
                       Path("out")));
  const auto train = ReadRecords(Path("out/train.tfrecord")), test = ReadRecords(Path("out/test.tfrecord"));
  ASSERT_EQ(train->size(), 4000u);
  ASSERT_EQ(test->size(), 4u);
  std::array<std::array<Moments, 3>, 4> blobs;
  std::vector<float> values(3);
  for (const std::string& record : *train) {
    int64_t label = -1;
    ASSERT_OK(FindInt64Feature(record, "label", &label));
    ASSERT_OK(FindFloatFeature(record, "features", values));
    for (size_t j = 0; j < 3; ++j) blobs[static_cast<size_t>(label)][j].Add(values[j]);
  }
  for (size_t label = 0; label < 4; ++label) {
    ASSERT_OK(FindFloatFeature((*test)[label], "features", values));
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(blobs[label][j].count, 1000);
      EXPECT_NEAR(blobs[label][j].variance(), 1, 0.18);
      EXPECT_LE(std::abs(blobs[label][j].mean()), 10.2);
      EXPECT_NEAR(values[j], blobs[label][j].mean(), 4.5) << "the test's blobs are the same";
    }
  }
}

TEST_F(SyntheticFilesTest, BadSettings_AreRefused) {
  FileSystem& fs = FileSystem::Default();
  EXPECT_THAT(testing::ErrorOf(WriteSynthetic(fs, {.clients = 0}, Path("no"))),
              HasSubstr("0 clients cannot be numbered"));
  EXPECT_THAT(testing::ErrorOf(WriteSynthetic(fs, {.alpha = -1}, Path("no"))), HasSubstr("alpha is -1; give a number"));
  EXPECT_THAT(testing::ErrorOf(WriteSynthetic(fs, {.beta = NAN}, Path("no"))), HasSubstr("beta is nan"));
  EXPECT_THAT(testing::ErrorOf(WriteBlobs(fs, {.classes = 0}, Path("no"))), HasSubstr("0 classes of 2 features"));
  EXPECT_THAT(testing::ErrorOf(WriteBlobs(fs, {.examples = 0}, Path("no"))), HasSubstr("0 examples and 200 for"));
  EXPECT_THAT(testing::ErrorOf(WriteBlobs(fs, {.deviation = INFINITY}, Path("no"))), HasSubstr("the deviation is inf"));
  EXPECT_FALSE(std::filesystem::exists(Path("no")));
}

}  // namespace
}  // namespace rivulet

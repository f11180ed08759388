// A version encoded by a codec: its decoded values, its size, and invalid bytes.
#include "federated/download/download.h"

#include <algorithm>
#include <cmath>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// Two tensors that are trained, statistics that are averaged, one that nobody moves, one that each client has.
std::shared_ptr<const ModelLayout> FiveTensors() {
  const std::vector<VariableSpec> variables = {{"mean", {DType::kFloat32, Shape{5}}, Segment::kShared},
                                               {"v", {DType::kFloat32, Shape{300}}, Segment::kTrainable},
                                               {"table", {DType::kInt64, Shape{3}}, Segment::kFrozen},
                                               {"own", {DType::kFloat32, Shape{7}}, Segment::kLocal},
                                               {"w", {DType::kFloat32, Shape{1, 11}}, Segment::kTrainable}};
  return std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
}

std::shared_ptr<const Model> SomeModel(const std::shared_ptr<const ModelLayout>& layout) {
  auto model = std::make_shared<Model>(layout);
  for (const Slice& slice : layout->slices()) {
    const TensorView tensor = model->tensor(slice);
    if (slice.segment == Segment::kFrozen) {
      for (int64_t i = 0; i < 3; ++i) tensor.flat<int64_t>()[static_cast<size_t>(i)] = i - 1;
    } else if (slice.segment != Segment::kLocal) {
      for (int64_t i = 0; i < slice.elements; ++i) {
        tensor.flat<float>()[static_cast<size_t>(i)] = std::sin(static_cast<float>(i * 7 + slice.wire_offset));
      }
    }
  }
  return model;
}

std::unique_ptr<const Download> By(const std::string& codec, const std::shared_ptr<const ModelLayout>& layout) {
  auto download = Download::Create(codec, layout);
  EXPECT_OK(download);
  return *std::move(download);
}

std::string BytesBy(const std::string& codec, const Model& model, uint64_t seed, int64_t version) {
  const auto sent = By(codec, model.shared_layout())->Send(model, seed, version);
  EXPECT_OK(sent);
  return sent.ok() ? sent->bytes : "";
}

double FurthestOff(const Model& one, const Model& other) {
  double most = 0;
  for (const Slice& slice : one.layout().slices()) {
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
    const auto a = one.tensor(slice).flat<float>(), b = other.tensor(slice).flat<float>();
    for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return most;
}

TEST(DownloadTest, WhatIsDecoded_IsAsNearAsTheCodecIs) {
  const auto layout = FiveTensors();
  const auto model = SomeModel(layout);
  struct Case {
    const char* codec;
    double off;    // of values up to 1
    size_t bytes;  // at most, of 316 values and three whole numbers
  };
  for (const Case& of : {Case{"f16", 0x1p-12, 672}, Case{"bf16", 0x1p-9, 672}, Case{"int8", 1.0 / 127, 364},
                         Case{"int4", 1.0 / 7, 240}}) {
    SCOPED_TRACE(of.codec);
    const auto download = By(of.codec, layout);
    ASSERT_OK_AND_ASSIGN(const Download::Sent sent, download->Send(*model, 3, 4));
    EXPECT_LE(sent.bytes.size(), of.bytes);
    ASSERT_OK_AND_ASSIGN(const auto decoded, download->Decode(sent.bytes));
    EXPECT_EQ(decoded->ComputeDigest(), sent.model->ComputeDigest());
    const double off = FurthestOff(*decoded, *model);
    EXPECT_LE(off, of.off);
    EXPECT_GT(off, 0);
    const auto table = decoded->tensor(*layout->Find("table")).flat<int64_t>();
    EXPECT_THAT(std::vector(table.begin(), table.end()), ::testing::ElementsAre(-1, 0, 1));
    EXPECT_EQ(BytesBy(of.codec, *model, 3, 4), sent.bytes);
  }
}

// The codecs that are right in the mean are so of models too; what they cost is what docs/internals/formats.md says of
// 316 values.
TEST(DownloadTest, EveryCodecThatIsRightInTheMean_IsSoOfModels) {
  std::vector<VariableSpec> variables = {{"v", {DType::kFloat32, Shape{300}}, Segment::kTrainable},
                                         {"w", {DType::kFloat32, Shape{16}}, Segment::kTrainable}};
  const auto layout = std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
  const auto model = SomeModel(layout);
  struct Case {
    const char* codec;
    double square;  // of the error, over that of the values, in the mean of versions
    size_t bytes;
  };
  // EDEN's errors are those of the paper (316 values in one block of 512, of which the rest are zeros: 512/316 of them
  // are not made worse by it); QSGD's are bounded by its lemma 3.1, min(n/s², √n/s) for blocks of 256.
  for (const Case& of : {Case{"eden1", 0.60, 100}, Case{"eden2", 0.15, 160}, Case{"eden3", 0.041, 220},
                         Case{"eden4", 0.012, 280}, Case{"qsgd4", 16.0 / 7, 190},
                         Case{"qsgd8", 256.0 / (127 * 127), 340}, Case{"elias127", 256.0 / (127 * 127), 340}}) {
    SCOPED_TRACE(of.codec);
    const auto download = By(of.codec, layout);
    std::vector<double> mean(316);
    double square = 0, error = 0;
    constexpr int kVersions = 200;
    for (int version = 0; version < kVersions; ++version) {
      ASSERT_OK_AND_ASSIGN(const Download::Sent sent, download->Send(*model, 3, version));
      EXPECT_LE(sent.bytes.size(), of.bytes);
      ASSERT_OK_AND_ASSIGN(const auto decoded, download->Decode(sent.bytes));
      ASSERT_EQ(decoded->ComputeDigest(), sent.model->ComputeDigest());
      for (const Slice& slice : layout->slices()) {
        const auto was = model->tensor(slice).flat<float>(), is = sent.model->tensor(slice).flat<float>();
        for (size_t i = 0; i < was.size(); ++i) {
          mean[static_cast<size_t>(slice.wire_offset) + i] += static_cast<double>(is[i]) / kVersions;
          square += static_cast<double>(was[i]) * was[i];
          error += std::pow(static_cast<double>(is[i]) - was[i], 2);
        }
      }
    }
    EXPECT_LE(error / square, of.square);
    EXPECT_GT(error, 0);
    double off = 0;
    for (const Slice& slice : layout->slices()) {
      const auto was = model->tensor(slice).flat<float>();
      for (size_t i = 0; i < was.size(); ++i) {
        off += std::pow(mean[static_cast<size_t>(slice.wire_offset) + i] - static_cast<double>(was[i]), 2);
      }
    }
    // The mean of 200 is wrong by a 200th of what one is, were it right; twice that is still far from a bias.
    EXPECT_LE(off, 2 * error / kVersions / kVersions);
  }
}

TEST(DownloadTest, RunningStatisticsByARotation_AreRefusedByName) {
  EXPECT_THAT(ErrorOf(Download::Create("eden2", FiveTensors())),
              HasSubstr("a model with running statistics ('mean') does not travel as 'eden2'"));
  EXPECT_NE(By("qsgd8", FiveTensors()), nullptr);
}

TEST(DownloadTest, ValueThatArrivesInfinite_IsRefusedByNameOfTensorAndKey) {
  const auto layout = FiveTensors();
  const auto model = SomeModel(layout);
  float& value = model->tensor(*layout->Find("w")).flat<float>()[7];
  value = 65504;
  ASSERT_OK_AND_ASSIGN(const Download::Sent sent, By("f16", layout)->Send(*model, 3, 4));
  EXPECT_EQ(sent.model->tensor(*layout->Find("w")).flat<float>()[7], 65504);
  value = -70000;
  EXPECT_EQ(ErrorOf(By("f16", layout)->Send(*model, 3, 4)),
            "element 7 of tensor 'w' is -70000, which comes to clients as -inf by \"f16\" (server.download); set it to "
            "\"bf16\" or \"f32\"");
  EXPECT_OK(By("bf16", layout)->Send(*model, 3, 4));
  EXPECT_OK(By("int8", layout)->Send(*model, 3, 4));
}

TEST(DownloadTest, WhatIsDrawn_IsTheVersionsOwn) {
  const auto layout = FiveTensors();
  const auto model = SomeModel(layout);
  EXPECT_NE(BytesBy("int8", *model, 3, 4), BytesBy("int8", *model, 3, 5));
  EXPECT_NE(BytesBy("int8", *model, 3, 4), BytesBy("int8", *model, 4, 4));
}

TEST(DownloadTest, ByF32_TravelsAsItIs) {
  const auto layout = FiveTensors();
  EXPECT_EQ(By("f32", layout), nullptr);
  EXPECT_EQ(By("", layout), nullptr);
  for (const char* codec : {"top_k", "random_k", "sign"}) {
    EXPECT_THAT(ErrorOf(Download::Create(codec, layout)), HasSubstr(codec)) << codec;
  }
  EXPECT_THAT(ErrorOf(Download::Create("top_k", layout)), HasSubstr("a model does not travel as 'top_k'"));
}

TEST(DownloadTest, OtherBytes_AreRefused) {
  const auto layout = FiveTensors();
  const auto download = By("int8", layout);
  const std::string bytes = BytesBy("int8", *SomeModel(layout), 3, 4);
  for (const std::string& other : {std::string(), bytes.substr(1), bytes.substr(0, 20), bytes + "x",
                                   bytes.substr(0, bytes.size() - 1), BytesBy("f16", *SomeModel(layout), 3, 4)}) {
    EXPECT_THAT(download->Decode(other), StatusIs(absl::StatusCode::kDataLoss)) << other.size();
  }
}

}  // namespace
}  // namespace rivulet

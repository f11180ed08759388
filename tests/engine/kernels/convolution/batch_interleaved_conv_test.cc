// Batch-interleaved convolutions compared with plain float64 loops and direct sums: incomplete groups of images, every
// padding, and the supported shapes.
#include "engine/kernels/cpu/convolution/batch_interleaved_conv.h"

#include <gmock/gmock.h>

#include <limits>

#include "engine/kernels/cpu/convolution/choose.h"
#include "engine/kernels/cpu/convolution/direct_conv.h"
#include "engine/kernels/cpu/convolution/epilogue.h"
#include "tests/engine/kernels/convolution/convolution_reference.h"
#include "tests/engine/kernels/every_target.h"

namespace rivulet::testing {
namespace {

void ExpectBatchInterleaved(const Window& w) {
  const Tensors tensors(w);
  for (const ConvDirection direction : kDirections) {
    const std::optional<Prepared> prepared = BatchInterleavedConvolution(direction, w);
    ASSERT_TRUE(prepared.has_value()) << NameOf(w);
    const Error error = ErrorOf(Convolve(*prepared, tensors, direction), Expected(w, tensors, direction));
    EXPECT_LE(error.most, 2e-6) << NameOf(w) << ", direction " << static_cast<int>(direction);
  }
}

// Groups of images, blocks of pixels, of filters and of a window's elements that are not full; padding that whole
// blocks meet.
TEST(BatchInterleavedConvolution, EveryTarget_IsTheFloat64Convolution) {
  OnEveryTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const int64_t batch : {1, 5, 16, 19}) {
      ExpectBatchInterleaved(Same(batch, 9, 1, 6, 5));
      ExpectBatchInterleaved(WindowOf(batch, 8, 11, 6, 16, 5, 0, 0));
    }
    for (int64_t side = 1; side <= 7; ++side) ExpectBatchInterleaved(Same(3, side, 2, 7, 3));
    for (const int64_t channels : {1, 3, 4, 5}) ExpectBatchInterleaved(Same(2, 6, channels, 17, 3));
    ExpectBatchInterleaved(WindowOf(2, 6, 11, 3, 8, 3, 1, 2));  // more after than before
    ExpectBatchInterleaved(WindowOf(2, 5, 4, 3, 5, 4, 3, 0));   // the most that may be before
    ExpectBatchInterleaved(WindowOf(17, 3, 3, 2, 4, 3, 0, 0));  // one output
  });
}

// Its sums are those of the direct kernels, one product after the other, but for lanes of a filter's gradient. So it
// may take over from them by the number of images, and nobody sees it.
TEST(BatchInterleavedConvolution, ForwardAndOfTheInput_HaveTheBitsOfDirectSums) {
  for (const Window& w : {Same(33, 12, 1, 6, 5), WindowOf(18, 9, 9, 6, 16, 5, 0, 0)}) {
    const Tensors tensors(w);
    for (const ConvDirection direction : {ConvDirection::kForward, ConvDirection::kBackwardInput}) {
      const Tensor direct = Convolve(*DirectConvolution(direction, w), tensors, direction);
      const Tensor interleaved = Convolve(*BatchInterleavedConvolution(direction, w), tensors, direction);
      EXPECT_EQ(std::memcmp(direct.data(), interleaved.data(), direct.bytes()), 0) << NameOf(w);
    }
  }
}

TEST(BatchInterleavedConvolution, FusedOps_AreTheEpiloguesArithmetic) {
  using Activation = FusedOps::Activation;
  const Window w = Same(20, 7, 2, 7, 3);
  Tensors tensors(w);
  tensors.image.flat<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  Tensor bias = RandomTensor<float>({w.out_channels}, 4);
  const Tensor plain =
      Convolve(*BatchInterleavedConvolution(ConvDirection::kForward, w), tensors, ConvDirection::kForward);
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
    for (const bool with_bias : {true, false}) {
      const FusedOps fused = {with_bias, activation};
      Tensor expected(DType::kFloat32, plain.shape());  // copies of a tensor share its memory
      std::ranges::copy(plain.flat<float>(), expected.flat<float>().begin());
      ApplyEpilogue<float>(fused, bias.flat<float>().data(), expected.flat<float>().data(),
                           w.batch * w.out_height * w.out_width, w.out_channels);
      const Tensor actual = Convolve(*BatchInterleavedConvolution(ConvDirection::kForward, w, fused), tensors,
                                     ConvDirection::kForward, &bias);
      EXPECT_EQ(std::memcmp(actual.data(), expected.data(), expected.bytes()), 0) << with_bias;
    }
  }
}

// A NaN is its own image's, whatever lies beside it in a vector.
TEST(BatchInterleavedConvolution, NanInAnImage_IsInNoOther) {
  const Window w = Same(18, 6, 1, 3, 3);
  Tensors tensors(w);
  tensors.image.flat<float>()[4 * 36 + 7] = std::numeric_limits<float>::quiet_NaN();
  const Tensor result =
      Convolve(*BatchInterleavedConvolution(ConvDirection::kForward, w), tensors, ConvDirection::kForward);
  for (size_t i = 0; i < result.flat<float>().size(); ++i) {
    const size_t image = i / (36 * 3), y = i / 18 % 6, x = i / 3 % 6;
    const bool seen = image == 4 && y <= 2 && x <= 2;  // the pixel (1, 1)
    EXPECT_EQ(std::isnan(std::as_const(result).flat<float>()[i]), seen) << i;
  }
}

bool Taken(ConvDirection direction, const Window& w) {
  return PaysToInterleave(direction, w) && BatchInterleavedConvolution(direction, w).has_value();
}

TEST(BatchInterleavedConvolution, LeNetOfManyImages_TakesItWhereItPays) {
  const Window first = Same(64, 28, 1, 6, 5), second = WindowOf(64, 14, 14, 6, 16, 5, 0, 0);
  for (const ConvDirection direction : {ConvDirection::kForward, ConvDirection::kBackwardInput}) {
    EXPECT_TRUE(Taken(direction, first));
    EXPECT_TRUE(Taken(direction, second));
  }
  EXPECT_TRUE(Taken(ConvDirection::kBackwardFilter, first));
  EXPECT_FALSE(Taken(ConvDirection::kBackwardFilter, second));
}

TEST(BatchInterleavedConvolution, FewImagesManyChannelsAndOtherWindows_AreLeftToOthers) {
  std::vector<Window> windows(9, Same(64, 14, 6, 16, 5));
  windows[0].batch = 10;
  windows[1].batch = 35;  // three groups, the last with three images
  windows[2].in_channels = 7;
  windows[3].out_channels = 17;
  windows[4].stride_height = 2;
  windows[5].stride_width = 2;
  windows[6].dilation_height = 2;
  windows[7].dilation_width = 2;
  windows[8].groups = 2;
  windows.push_back(Same(64, 14, 6, 16, 1));
  windows.push_back(Same(64, 60, 6, 16, 5));  // interleaved images are beyond the second cache
  for (const Window& w : windows) EXPECT_FALSE(Taken(ConvDirection::kForward, w)) << NameOf(w);
}

}  // namespace
}  // namespace rivulet::testing

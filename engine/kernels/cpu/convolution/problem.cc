#include "engine/kernels/cpu/convolution/problem.h"

#include <utility>
#include <vector>

namespace rivulet {
namespace {

std::vector<bool> ImageInputs(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::kForward:
      return {true, false};
    case ConvDirection::kBackwardInput:
      return {false, true};
    case ConvDirection::kBackwardFilter:
      return {true, true};
  }
  return {};
}

}  // namespace

Prepared InLayout(Prepared nhwc, const ConvolutionProblem& p) {
  if (!p.window.nchw) return nhwc;
  return ForNchw(std::move(nhwc), p.inputs, p.output, ImageInputs(p.direction),
                 p.direction != ConvDirection::kBackwardFilter);
}

}  // namespace rivulet

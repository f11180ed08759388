#include "engine/kernels/cpu/convolution/alternatives.h"

#include <optional>
#include <string_view>
#include <utility>

#include "engine/kernels/cpu/convolution/batch_interleaved_conv.h"
#include "engine/kernels/cpu/convolution/choose.h"
#include "engine/kernels/cpu/convolution/conv_loops.h"
#include "engine/kernels/cpu/convolution/depthwise.h"
#include "engine/kernels/cpu/convolution/direct_conv.h"
#include "engine/kernels/cpu/convolution/dnnl_convolution.h"
#include "engine/kernels/cpu/convolution/planar_conv.h"
#include "engine/kernels/cpu/convolution/winograd.h"

namespace rivulet {
namespace {

StatusOr<Prepared> NoneFor(std::string_view what) { return Unimplemented("{} for this shape on this CPU", what); }

}  // namespace

StatusOr<Prepared> ConvolutionByLibrary(const ConvolutionProblem& p, const KernelPolicy&) {
  if (p.window.depthwise() && p.window.group_out() > 1) return NoneFor("oneDNN has no such convolution");
  if (std::optional<Prepared> library = DnnlConvolution(p.direction, p.window)) return *std::move(library);
  return NoneFor("oneDNN has no fast convolution");
}

StatusOr<Prepared> ConvolutionByOwn(const ConvolutionProblem& p, const KernelPolicy&) {
  if (p.window.depthwise() && p.window.group_out() > 1) return NoneFor("we have no such convolution of our own");
  if (p.window.depthwise() && p.window.out_channels == p.window.in_channels) {
    if (std::optional<Prepared> own = DepthwiseConvolution(p.direction, p.window)) return *std::move(own);
  }
  if (PaysPlanar(p.direction, p.window)) {
    if (std::optional<Prepared> planar = PlanarConvolution(p.direction, p.window))
      return InLayout(*std::move(planar), p);
  }
  if (std::optional<Prepared> direct = DirectConvolution(p.direction, p.window)) return InLayout(*std::move(direct), p);
  return NoneFor("we have no convolution of our own");
}

StatusOr<Prepared> ConvolutionByWinograd(const ConvolutionProblem& p, const KernelPolicy&) {
  if (std::optional<Prepared> winograd = WinogradConvolution(p.direction, p.window))
    return InLayout(*std::move(winograd), p);
  return NoneFor("there is no convolution by fewer multiplications");
}

StatusOr<Prepared> ConvolutionByInterleaving(const ConvolutionProblem& p, const KernelPolicy&) {
  if (std::optional<Prepared> interleaved = BatchInterleavedConvolution(p.direction, p.window))
    return InLayout(*std::move(interleaved), p);
  return NoneFor("there is no batch-interleaved convolution");
}

StatusOr<Prepared> ConvolutionByReference(const ConvolutionProblem& p, const KernelPolicy&) {
  return InLayout(ConvolutionByLoops<float>(p.direction, p.window), p);
}

}  // namespace rivulet

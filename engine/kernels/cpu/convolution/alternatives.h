// Float32 convolutions by one named algorithm, regardless of its speed, for measurements beside the chosen one
// (choose.h). UNIMPLEMENTED if the algorithm cannot compute the shape.
#pragma once

#include "engine/kernels/cpu/convolution/problem.h"

namespace rivulet {

using ConvolutionChoice = StatusOr<Prepared> (*)(const ConvolutionProblem&, const KernelPolicy&);
StatusOr<Prepared> ConvolutionByLibrary(const ConvolutionProblem& problem, const KernelPolicy& policy);
StatusOr<Prepared> ConvolutionByOwn(const ConvolutionProblem& problem, const KernelPolicy& policy);
StatusOr<Prepared> ConvolutionByWinograd(const ConvolutionProblem& problem, const KernelPolicy& policy);
StatusOr<Prepared> ConvolutionByInterleaving(const ConvolutionProblem& problem, const KernelPolicy& policy);
StatusOr<Prepared> ConvolutionByReference(const ConvolutionProblem& problem, const KernelPolicy& policy);

}  // namespace rivulet

#include "engine/kernels/cpu/recurrent/choose.h"

#include <type_traits>

namespace rivulet {

template <typename T>
StepAlgorithm ChooseLstmStep(const Gate<T>& gate, const Gate<T>& candidate, const Gate<T>& output, bool peephole,
                             T cell_clip) {
  const bool usual = gate.IsPlain(CellActivation::kSigmoid) && candidate.IsPlain(CellActivation::kTanh) &&
                     output.IsPlain(CellActivation::kTanh);
  return std::is_same_v<T, float> && usual && !peephole && cell_clip == 0 ? StepAlgorithm::kOnePass
                                                                          : StepAlgorithm::kByGate;
}

template <typename T>
StepAlgorithm ChooseGruStep(const Gate<T>& gate, const Gate<T>& candidate, bool reset_after) {
  const bool usual = gate.IsPlain(CellActivation::kSigmoid) && candidate.IsPlain(CellActivation::kTanh);
  return std::is_same_v<T, float> && usual && reset_after ? StepAlgorithm::kOnePass : StepAlgorithm::kByGate;
}

template StepAlgorithm ChooseLstmStep<float>(const Gate<float>&, const Gate<float>&, const Gate<float>&, bool, float);
template StepAlgorithm ChooseLstmStep<double>(const Gate<double>&, const Gate<double>&, const Gate<double>&, bool,
                                              double);
template StepAlgorithm ChooseGruStep<float>(const Gate<float>&, const Gate<float>&, bool);
template StepAlgorithm ChooseGruStep<double>(const Gate<double>&, const Gate<double>&, bool);

}  // namespace rivulet

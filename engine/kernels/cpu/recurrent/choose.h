// Choice of a recurrent step's loop over its gates. product/choose.h chooses the products of the steps. The table in
// README.md lists the algorithms.
#pragma once

#include "engine/kernels/cpu/recurrent/recurrent.h"

namespace rivulet {

enum class StepAlgorithm {
  kByGate,   // one activation after another, of any kind
  kOnePass,  // lstm_rows.h or gru_rows.h: all gates of a row in registers
};

// `cell_clip`: 0 if cells are not clipped. T: float or double.
template <typename T>
StepAlgorithm ChooseLstmStep(const Gate<T>& gate, const Gate<T>& candidate, const Gate<T>& output, bool peephole,
                             T cell_clip);

template <typename T>
StepAlgorithm ChooseGruStep(const Gate<T>& gate, const Gate<T>& candidate, bool reset_after);

}  // namespace rivulet

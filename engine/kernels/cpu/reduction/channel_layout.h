// Parser of the attribute that names a tensor's channel axis.
#pragma once

#include "engine/kernels/cpu/reduction/channels.h"
#include "engine/program/kernel.h"

namespace rivulet {

// `x` viewed as [rows, channels, inner] by attribute data_format: channels are last ("NHWC", …), or second ("NCHW", …).
inline ChannelLayout ChannelLayoutOf(const NodeView& node, const Shape& x) {
  const bool last = node.attr<std::string>("data_format").ends_with('C');
  const int axis = last ? x.rank() - 1 : 1;
  ChannelLayout layout;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? layout.rows : i == axis ? layout.channels : layout.inner) *= x.dim(i);
  return layout;
}

}  // namespace rivulet

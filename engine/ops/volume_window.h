// The geometry of a window that slides over a volume [batch, depth, height, width, channels] ("NDHWC") or [batch,
// channels, depth, height, width] ("NCDHW"): three axes as in window.h.
#pragma once

#include <array>

#include "engine/ops/window.h"

namespace rivulet {

struct VolumeWindow {
  bool channels_first = false;
  std::array<WindowAxis, 3> axes;  // depth, height, width
  int channel_axis() const { return channels_first ? 1 : 4; }
  int spatial_axis(int i) const { return (channels_first ? 2 : 1) + i; }
};

// Uses the attributes strides, padding (SAME or VALID), data_format, dilations. `volume` has rank 5 (spatial sizes may
// be unknown); `window` has the window's three sizes. INVALID_ARGUMENT as MakeWindowAxis.
StatusOr<VolumeWindow> MakeVolumeWindow(const AttrMap& attrs, const Shape& volume,
                                        const std::array<int64_t, 3>& window);
// The same with the window sizes from the attribute ksize.
StatusOr<VolumeWindow> PoolVolumeWindow(const AttrMap& attrs, const Shape& volume);

// Returns the shape of `volume` with the window's output sizes as spatial sizes, and with `channels`.
Shape VolumeOutput(const VolumeWindow& window, const Shape& volume, int64_t channels);

}  // namespace rivulet

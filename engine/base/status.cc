#include "engine/base/status.h"

namespace rivulet::internal {

Status FormatError(absl::StatusCode code, fmt::string_view format, fmt::format_args args) {
  return {code, ToAbsl(fmt::vformat(format, args))};
}

}  // namespace rivulet::internal

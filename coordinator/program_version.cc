#include "coordinator/program_version.h"

namespace rivulet {

std::string_view ProgramVersion() { return RIVULET_VERSION; }

}  // namespace rivulet

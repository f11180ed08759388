// rivulet client: the same as `rivulet-client`.
#include "cli/run/client_command.h"

namespace rivulet {
namespace {

const RegisterCommand kClient(25, ClientCommand);

}  // namespace
}  // namespace rivulet

// An upload at a server: passes messages to a writer of the api. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "federated/transport/server_stream.h"

namespace rivulet {

// It deletes itself. `shared` must outlive it.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* NewUpload(ServedStreams& shared,
                                                                       grpc::CallbackServerContext* context);

}  // namespace rivulet

// A download at a server: what a reader of the api gives, as messages. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "federated/transport/server_stream.h"

namespace rivulet {

// It deletes itself. `shared` must outlive it.
grpc::ServerWriteReactor<grpc::ByteBuffer>* NewDownload(ServedStreams& shared, grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer& request);

}  // namespace rivulet

#include "ringrad/core/base/version.h"

#define RINGRAD_TEXT_OF(x) #x
#define RINGRAD_TEXT(x) RINGRAD_TEXT_OF(x)

namespace ringrad {

const char* version() {
  return RINGRAD_TEXT(RINGRAD_VERSION_MAJOR) "." RINGRAD_TEXT(
      RINGRAD_VERSION_MINOR) "." RINGRAD_TEXT(RINGRAD_VERSION_PATCH);
}

}  // namespace ringrad

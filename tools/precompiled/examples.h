// What nearly every example includes.

#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"

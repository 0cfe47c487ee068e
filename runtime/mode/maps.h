/* What maps.c offers. */
#ifndef RETAKE_MODE_MAPS_H
#define RETAKE_MODE_MAPS_H
#include "contract/context.h"

struct call;

void filter_open(struct call *call);

#endif

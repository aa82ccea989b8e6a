"""ResourceQuotas: what the objects of a namespace use, and refusing those that would exceed it."""

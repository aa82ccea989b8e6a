{{- define "kubesched.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* "kubesched" for a release named kubesched, otherwise release-kubesched. Suffixes of up to 22 characters must fit. */}}
{{- define "kubesched.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "kubesched.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "kubesched.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "kubesched.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "kubesched.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The label "app" selects pods; it is the same as in the kustomize base. */}}
{{- define "kubesched.selector" -}}
app: {{ include "kubesched.fullname" . }}
{{- end }}

{{- define "kubesched.labels" -}}
app.kubernetes.io/name: {{ include "kubesched.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "kubesched.subject" -}}
{kind: ServiceAccount, name: {{ include "kubesched.serviceAccount" . }}, namespace: {{ .Release.Namespace }}}
{{- end }}

{{- define "kubesched.config" -}}
{{- $election := dict "resourceName" .Values.leaderElection.resourceName }}
{{- if ne .Release.Namespace "kube-system" }}{{ $_ := set $election "resourceNamespace" .Release.Namespace }}{{ end }}
{{- if not .Values.leaderElection.enabled }}{{ $election = dict "leaderElect" false }}{{ end }}
{{- $ours := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $election "profiles" (list (dict "schedulerName" .Values.schedulerName)) }}
{{- toYaml (mergeOverwrite $ours (deepCopy .Values.config)) }}
{{- end }}
